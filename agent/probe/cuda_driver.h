// The CUDA driver as far as probes use it: its library is opened at run time, as nodes without a GPU do not have it and
// the program must not depend on it; no CUDA toolkit is needed to build. Caller: gpu_probe. Used by one thread at a
// time. The driver may block for as long as it likes: that is why probes are processes of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "lib/base/result.h"

namespace paceline::agent {

class CudaDriver {
 public:
  // kNotFound without the library, a driver or a device: then the node has no GPUs. kUnavailable when the driver is
  // there and does not work.
  static Result<std::unique_ptr<CudaDriver>> Open(const std::string& library);
  virtual ~CudaDriver() = default;

  virtual int device_count() const = 0;  // at least 1
};

// One GPU with what its measurements need: a kernel, and buffers on it and in pinned memory. Released when it goes.
class CudaDevice {
 public:
  // `driver` must outlive the device.
  static Result<std::unique_ptr<CudaDevice>> Open(const CudaDriver& driver, int index);
  virtual ~CudaDevice() = default;

  // Each starts its work `times` times and waits until all of it is done. The amount of one:
  virtual Status Multiply(int times) = 0;                   // flop_per_multiply() operations
  virtual Status CopyOnDevice(int times) = 0;               // buffer_bytes() read and as much written
  virtual Status CopyFromHost(int times) = 0;               // host_bytes()
  virtual Status CopyTo(CudaDevice& other, int times) = 0;  // buffer_bytes(), to the buffer of another GPU
  virtual double flop_per_multiply() const = 0;
  virtual size_t buffer_bytes() const = 0;
  virtual size_t host_bytes() const = 0;
};

}  // namespace paceline::agent
