// predict.cpp: a C++ host by penumbra.hpp: loads a model script, sets limits and meets them, predicts, catches an error
// with its line, cancels from another thread, and uses tensors without Lua.
//
//   c++ -std=c++17 predict.cpp $(pkg-config --cflags --libs penumbra) -o predict && ./predict
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <new>
#include <thread>

#include <penumbra.hpp>

// What this program itself allocates, to see that arrays are passed without a copy of their own.
static std::size_t largest = 0;
void *operator new(std::size_t n) {
  largest = std::max(largest, n);
  if (void *p = std::malloc(n ? n : 1)) return p;
  throw std::bad_alloc();
}
void operator delete(void *p) noexcept { std::free(p); }
void operator delete(void *p, std::size_t) noexcept { std::free(p); }

static int wrong = 0;

static void expect(bool ok, const char *what) {
  if (ok) return;
  std::cout << "not as expected: " << what << "\n";
  wrong++;
}

static constexpr char MODEL[] = R"(
  print "loaded"
  function predict(x) return x:exp(), x:sum() end
  function fail(x)
    return x:reshape { 7 }
  end
  function loop() while true do end end
  function grow() local t = {} while true do t[#t + 1] = pn.zeros(1000) end end
  function mean(x) return x:mean() end
  pn = require "penumbra"
)";

// The status that f fails with.
template <class F> static pn_status failure(F f) {
  try {
    f();
  } catch (const penumbra::error &e) { return e.status(); }
  return PN_OK;
}

int main() {
  pn_limits limits{};
  limits.memory = 64 << 20;
  limits.seconds = 20;
  std::string printed;
  penumbra::runtime model(limits, [&](std::string_view line) { printed += line; });
  model.run(MODEL, "model");
  expect(printed.find("loaded") != std::string::npos, "what the script printed");

  const std::vector<double> x{0, 1, 2};
  auto y = model.call_all("predict", {penumbra::view(x)}, 2);
  auto values = y[0].values();
  std::cout << values[0] << " " << values[1] << " " << values[2] << ", sum " << y[1].item() << "\n";
  expect(std::fabs(values[1] - std::exp(1)) < 1e-12 && y[0].shape() == std::vector<std::int64_t>{3}, "exp");
  expect(y[1].item() == 3, "sum");
  const float small[2]{1, 2};
  expect(model.call("predict", penumbra::view(small, {2, 1})).dtype() == PN_FLOAT32, "float32 stays");

  try {
    model.call("fail", penumbra::view(x));
    expect(false, "an error is thrown");
  } catch (const penumbra::error &e) {
    std::cout << pn_status_name(e.status()) << ": " << e.what() << "\n";
    expect(e.status() == PN_SCRIPT && std::string(e.what()).find("model:5:") != std::string::npos, "its line");
  }

  const std::vector<double> big(4 << 20, 1.0); // 32 MiB, read where they are
  largest = 0;
  expect(model.call("mean", penumbra::view(big)).item() == 1 && largest < 1 << 16, "no copy");
  expect(failure([&] { model.call("grow"); }) == PN_NOMEM, "the limit of memory");
  limits.seconds = 0.1;
  model.limits(limits);
  expect(failure([&] { model.call("loop"); }) == PN_TIME, "the limit of time");
  limits.seconds = 20;
  model.limits(limits);

  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    model.cancel();
  });
  expect(failure([&] { model.call("loop"); }) == PN_CANCELLED, "cancelled");
  other.join();
  expect(model.call("predict", penumbra::view(x)).size() == 3, "it goes on");

  penumbra::context c;
  {
    penumbra::context::scope scope(c);
    double sum = 0;
    const std::int64_t four[]{4}, three[]{3};
    pn_tensor *t = c.check(pn_full(c.get(), PN_FLOAT64, 1, four, 1));
    c.check(pn_tensor_item(c.get(), pn_sum(c.get(), t, pn_axes{}, 0), &sum));
    expect(sum == 4, "a sum without Lua");
    try {
      c.check(pn_reshape(c.get(), t, 1, three));
      expect(false, "a shape that does not fit");
    } catch (const penumbra::error &e) { expect(e.status() == PN_SHAPE, "PN_SHAPE"); }
  }
  penumbra::runtime moved = std::move(model);
  moved.set("scale", 2.5);
  expect(moved.number("scale") == 2.5 && moved.call("predict", penumbra::view(x)).values()[0] == 1, "a moved handle");
  std::cout << (wrong ? "something is wrong\n" : "all as expected\n");
  return wrong != 0;
}
