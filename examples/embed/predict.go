// predict.go: a Go host by cgo: loads a model script, sets limits and meets them, predicts, catches an error with its line,
// cancels from another goroutine. Slices are passed without a copy of their own.
//
//	PKG_CONFIG_PATH=PREFIX/lib/pkgconfig go build -o predict predict.go && ./predict
package main

/*
#cgo pkg-config: penumbra
#include <penumbra.h>
#include <stdlib.h>

// cgo may not pass a struct that holds a Go pointer: the array is made here.
static pn_status call(pn_runtime *rt, const char *name, const double *x, int64_t n, int nout, pn_array *out) {
  pn_array in = {.dtype = PN_FLOAT64, .ndim = 1, .shape = {n}, .data = (void *)x};
  return pn_runtime_call(rt, name, x ? 1 : 0, &in, nout, out);
}
*/
import "C"

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"time"
	"unsafe"
)

// Failure is what went wrong, by the status of penumbra.h, with the script's line where there is one.
type Failure struct {
	Status  C.pn_status
	Message string
}

func (f *Failure) Error() string { return f.Message }

// Model is a script behind limits: one goroutine at a time, but Cancel may come from any.
type Model struct{ rt *C.pn_runtime }

// NewModel makes a runtime with so many bytes and seconds for each call, and runs the script.
func NewModel(script, name string, memory uint64, seconds float64) (*Model, error) {
	config := C.pn_runtime_config{}
	config.limits.memory, config.limits.seconds = C.size_t(memory), C.double(seconds)
	m := &Model{}
	if status := C.pn_runtime_new(&config, &m.rt); status != C.PN_OK {
		return nil, &Failure{status, "no runtime: " + C.GoString(C.pn_status_name(status))}
	}
	text, title := C.CString(script), C.CString(name)
	defer C.free(unsafe.Pointer(text))
	defer C.free(unsafe.Pointer(title))
	if err := m.failure(C.pn_runtime_run_string(m.rt, text, C.size_t(len(script)), title)); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// Close gives everything back.
func (m *Model) Close() { C.pn_runtime_close(m.rt); m.rt = nil }

// Cancel ends the call that runs, or the next one.
func (m *Model) Cancel() { C.pn_runtime_cancel(m.rt) }

func (m *Model) failure(status C.pn_status) error {
	if status == C.PN_OK {
		return nil
	}
	return &Failure{status, C.GoString(C.pn_runtime_message(m.rt))}
}

// Call gives the first results of a global function of x; the script reads x where it lies.
func (m *Model) Call(name string, x []float64, results int) ([][]float64, error) {
	title := C.CString(name)
	defer C.free(unsafe.Pointer(title))
	out := make([]C.pn_array, results+1)
	var data *C.double
	if len(x) > 0 {
		data = (*C.double)(unsafe.Pointer(&x[0]))
	}
	status := C.call(m.rt, title, data, C.int64_t(len(x)), C.int(results), &out[0])
	runtime.KeepAlive(x)
	if err := m.failure(status); err != nil {
		return nil, err
	}
	list := make([][]float64, results)
	for k := range list {
		if out[k].dtype != C.PN_FLOAT64 {
			return nil, &Failure{C.PN_DTYPE, "a result is no float64"}
		}
		n := 1
		for i := 0; i < int(out[k].ndim); i++ {
			n *= int(out[k].shape[i])
		}
		list[k] = append([]float64{}, unsafe.Slice((*float64)(out[k].data), n)...) // the library's until the next call
	}
	return list, nil
}

const script = `
function predict(x) return x:exp(), x:sum() end
function fail(x)
  return x:reshape { 7 }
end
function loop() while true do end end
function grow() local t = {} while true do t[#t + 1] = pn.zeros(1000) end end
function mean(x) return x:mean() end
pn = require "penumbra"
`

func main() {
	wrong := 0
	expect := func(ok bool, what string) {
		if !ok {
			wrong++
			fmt.Println("not as expected:", what)
		}
	}
	m, err := NewModel(script, "model", 64<<20, 20)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	defer m.Close()
	x := []float64{0, 1, 2}
	y, err := m.Call("predict", x, 2)
	expect(err == nil && len(y) == 2 && len(y[0]) == 3, "a prediction")
	fmt.Println(y[0], y[1])
	expect(math.Abs(y[0][1]-math.E) < 1e-12 && y[1][0] == 3, "exp and sum")
	_, err = m.Call("fail", x, 1)
	fmt.Println(err)
	expect(err != nil && err.(*Failure).Status == C.PN_SCRIPT && strings.Contains(err.Error(), "model:4:"), "its line")
	big := make([]float64, 4<<20) // 32 MiB, read where they are
	big[0] = 1 << 22
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	y, err = m.Call("mean", big, 1)
	runtime.ReadMemStats(&after)
	expect(err == nil && y[0][0] == 1, "a mean")
	expect(after.TotalAlloc-before.TotalAlloc < 1<<16, "no copy")
	status := func(err error) C.pn_status {
		if failure, ok := err.(*Failure); ok {
			return failure.Status
		}
		return C.PN_OK
	}
	_, err = m.Call("grow", nil, 0)
	expect(status(err) == C.PN_NOMEM, "the limit of memory")
	short, err := NewModel(script, "short", 0, 0.1)
	expect(err == nil, "another runtime")
	_, err = short.Call("loop", nil, 0)
	expect(status(err) == C.PN_TIME, "the limit of time")
	short.Close()
	go func() {
		time.Sleep(50 * time.Millisecond)
		m.Cancel()
	}()
	_, err = m.Call("loop", nil, 0)
	expect(status(err) == C.PN_CANCELLED, "cancelled")
	_, err = NewModel("x = = 1", "bad", 0, 0)
	expect(err != nil && strings.HasPrefix(err.Error(), "bad:1:"), "a script that is none")
	y, err = m.Call("predict", x, 1)
	expect(err == nil && y[0][0] == 1, "it goes on")
	if wrong > 0 {
		fmt.Println("something is wrong")
		os.Exit(1)
	}
	fmt.Println("all as expected")
}
