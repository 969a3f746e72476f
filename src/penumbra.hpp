// penumbra.hpp: handles for C++17 over penumbra.h. Each owns what it holds and gives it back when it ends; it can be moved,
// not copied. What fails throws penumbra::error, which carries the status and the message; nothing else throws but
// std::bad_alloc. Link with libpenumbra as from C.
//
//   pn_limits limits{};
//   limits.memory = 64 << 20;
//   penumbra::runtime model(limits);
//   model.run_file("model.lua");
//   std::vector<double> y = model.call("predict", penumbra::view(x)).values();
#ifndef PENUMBRA_HPP
#define PENUMBRA_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "penumbra.h"

namespace penumbra {

// What failed: its status, its message, and where a script was, innermost function first.
class error : public std::runtime_error {
public:
  error(pn_status status, const std::string &message, std::string traceback = {})
      : std::runtime_error(message), status_(status), traceback_(std::move(traceback)) {}
  pn_status status() const noexcept { return status_; }
  const std::string &traceback() const noexcept { return traceback_; }

private:
  pn_status status_;
  std::string traceback_;
};

// The element type of T: double, float, std::int64_t; bool as std::uint8_t.
template <class T> constexpr pn_dtype dtype_of() {
  static_assert(std::is_same_v<T, double> || std::is_same_v<T, float> || std::is_same_v<T, std::int64_t> ||
                    std::is_same_v<T, std::uint8_t>,
                "tensors hold double, float, int64_t and uint8_t (bool)");
  if constexpr (std::is_same_v<T, float>) return PN_FLOAT32;
  if constexpr (std::is_same_v<T, std::int64_t>) return PN_INT64;
  if constexpr (std::is_same_v<T, std::uint8_t>) return PN_BOOL;
  return PN_FLOAT64;
}

// Elements of the caller's, row-major, of the given shape; they must live until the call that reads them returns.
template <class T> pn_array view(const T *data, std::initializer_list<std::int64_t> shape) {
  pn_array a{};
  if (shape.size() > PN_MAX_DIMS) throw error(PN_SHAPE, "view: more axes than a tensor has");
  a.dtype = dtype_of<T>();
  for (std::int64_t n : shape) a.shape[a.ndim++] = n;
  a.data = const_cast<T *>(data); // of an input only read
  return a;
}
template <class T> pn_array view(const std::vector<T> &x) {
  return view(x.data(), {static_cast<std::int64_t>(x.size())});
}

// A result of a script: a copy of its own.
class result {
public:
  explicit result(const pn_array &a) : dtype_(a.dtype), shape_(a.shape, a.shape + a.ndim) {
    std::size_t n = 1;
    for (std::int64_t size : shape_) n *= static_cast<std::size_t>(size);
    const auto *bytes = static_cast<const unsigned char *>(a.data);
    bytes_.assign(bytes, bytes + n * pn_dtype_size(dtype_));
  }
  pn_dtype dtype() const noexcept { return dtype_; }
  const std::vector<std::int64_t> &shape() const noexcept { return shape_; }
  std::size_t size() const noexcept { return bytes_.size() / pn_dtype_size(dtype_); }
  // All elements as T, row-major.
  template <class T = double> std::vector<T> values() const {
    std::vector<T> list(size());
    for (std::size_t i = 0; i < list.size(); i++) list[i] = element<T>(i);
    return list;
  }
  // The only element.
  double item() const {
    if (size() != 1) throw error(PN_SHAPE, "item: the result has " + std::to_string(size()) + " elements");
    return element<double>(0);
  }

private:
  template <class T> T element(std::size_t i) const {
    switch (dtype_) {
    case PN_FLOAT32: return static_cast<T>(read<float>(i));
    case PN_INT64: return static_cast<T>(read<std::int64_t>(i));
    case PN_BOOL: return static_cast<T>(bytes_[i]);
    default: return static_cast<T>(read<double>(i));
    }
  }
  template <class T> T read(std::size_t i) const {
    T x;
    std::copy_n(bytes_.data() + i * sizeof x, sizeof x, reinterpret_cast<unsigned char *>(&x));
    return x;
  }
  pn_dtype dtype_;
  std::vector<std::int64_t> shape_;
  std::vector<unsigned char> bytes_;
};

// A script behind limits: pn_runtime. One thread in it at a time, but cancel() may come from any.
class runtime {
public:
  using printer = std::function<void(std::string_view)>;

  // `print` receives what the script prints, a line at a time; it must not throw.
  explicit runtime(const pn_limits &limits = {}, printer print = {}, unsigned libraries = 0) {
    pn_runtime_config config{};
    config.limits = limits;
    config.libraries = libraries;
    if (print) {
      print_ = std::make_unique<printer>(std::move(print));
      config.output = [](void *data, const char *text, std::size_t n) { (*static_cast<printer *>(data))({text, n}); };
      config.output_data = print_.get();
    }
    open(config);
  }
  explicit runtime(const pn_runtime_config &config) { open(config); }

  void run(std::string_view script, const char *name = nullptr) {
    check(pn_runtime_run_string(get(), script.data(), script.size(), name));
  }
  void run_file(const std::string &path) { check(pn_runtime_run_file(get(), path.c_str())); }

  // The global function `name` of these arrays; its first `count` results.
  std::vector<result> call_all(const std::string &name, std::initializer_list<pn_array> in, int count) {
    std::vector<pn_array> out(static_cast<std::size_t>(count < 0 ? 0 : count));
    check(pn_runtime_call(get(), name.c_str(), static_cast<int>(in.size()), in.begin(), count, out.data()));
    return {out.begin(), out.end()};
  }
  template <class... Arrays> result call(const std::string &name, const Arrays &...in) {
    return call_all(name, {in...}, 1).front();
  }

  void set(const std::string &name, double value) { check(pn_runtime_set_number(get(), name.c_str(), value)); }
  void set(const std::string &name, const pn_array &value) { check(pn_runtime_set_array(get(), name.c_str(), &value)); }
  double number(const std::string &name) {
    double value = 0;
    check(pn_runtime_get_number(get(), name.c_str(), &value));
    return value;
  }
  result array(const std::string &name) {
    pn_array a{};
    check(pn_runtime_get_array(get(), name.c_str(), &a));
    return result(a);
  }

  void limits(const pn_limits &limits) { check(pn_runtime_set_limits(get(), &limits)); }
  void cancel() noexcept { pn_runtime_cancel(get()); }
  void uncancel() noexcept { pn_runtime_uncancel(get()); }
  std::size_t memory() const noexcept { return pn_runtime_memory(get(), nullptr); }
  pn_runtime *get() const noexcept { return handle_.get(); }

private:
  struct close {
    void operator()(pn_runtime *rt) const noexcept { pn_runtime_close(rt); }
  };
  void open(const pn_runtime_config &config) {
    pn_runtime *rt = nullptr;
    pn_status status = pn_runtime_new(&config, &rt);
    if (status == PN_NOMEM) throw std::bad_alloc();
    if (status != PN_OK) throw error(status, std::string("no runtime: ") + pn_status_name(status));
    handle_.reset(rt);
  }
  void check(pn_status status) const {
    if (status != PN_OK) throw error(status, pn_runtime_message(get()), pn_runtime_traceback(get()));
  }
  std::unique_ptr<printer> print_; // outlives the runtime
  std::unique_ptr<pn_runtime, close> handle_;
};

// Tensors without Lua: pn_context. Builders of penumbra.h take get(); what they give lives until the scope that is open
// ends.
class context {
public:
  explicit context(const pn_context_config *config = nullptr) : handle_(pn_context_new(config)) {
    if (!handle_) throw std::bad_alloc();
  }
  pn_context *get() const noexcept { return handle_.get(); }
  // Throws what was noted last if a builder gave nothing, or an action this status.
  template <class T> T *check(T *made) const {
    if (!made) fail(pn_context_status(get()));
    return made;
  }
  void check(pn_status status) const {
    if (status != PN_OK) fail(status);
  }

  class scope {
  public:
    explicit scope(const context &c) : c_(c.get()), mark_(pn_scope_open(c_)) {}
    ~scope() { pn_scope_close(c_, mark_); }
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;

  private:
    pn_context *c_;
    std::size_t mark_;
  };

private:
  [[noreturn]] void fail(pn_status status) const { throw error(status, pn_context_message(get())); }
  struct close {
    void operator()(pn_context *c) const noexcept { pn_context_close(c); }
  };
  std::unique_ptr<pn_context, close> handle_;
};

} // namespace penumbra

#endif
