#pragma once

// Memory that cannot be written. Include after torch's headers.

#include <torch/types.h>

#include <sys/mman.h>

#include <cstring>
#include <stdexcept>

/// A copy of a contiguous tensor in pages that end the process when written.
class ReadOnlyMemory {
 public:
  explicit ReadOnlyMemory(const at::Tensor& source) : size_(source.nbytes()) {
    pages_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages_ == MAP_FAILED) {
      throw std::runtime_error("mmap failed");
    }
    std::memcpy(pages_, source.const_data_ptr(), size_);
    mprotect(pages_, size_, PROT_READ);
    tensor_ = torch::from_blob(pages_, source.sizes(), source.options());
  }
  ReadOnlyMemory(const ReadOnlyMemory&) = delete;
  ReadOnlyMemory& operator=(const ReadOnlyMemory&) = delete;
  ~ReadOnlyMemory() {
    munmap(pages_, size_);
  }

  const at::Tensor& tensor() const {
    return tensor_;
  }

 private:
  size_t size_;
  void* pages_;
  at::Tensor tensor_;
};
