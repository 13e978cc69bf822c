// Compiled once an instruction set: raw pointers only, and nothing here may have external linkage but the table at the end.

#include "scaler/cpu/capability/copy_cast_kernels.h"
#include "scaler/cpu/capability/vector_conversions.h"

#include <ATen/cpu/vec/vec.h>

#include <cstring>
#include <tuple>
#include <type_traits>

namespace ampcast::scaler::cpu {
namespace {

// As many numbers as a vector of 16-bit ones holds.
constexpr int64_t kWidth = Vectorized<c10::BFloat16>::size();
using Floats = std::tuple<Vectorized<float>, Vectorized<float>>;

Floats load_floats(const float* numbers) {
  return {Vectorized<float>::loadu(numbers), Vectorized<float>::loadu(numbers + kWidth / 2)};
}
template <typename T>
Floats load_floats(const T* numbers) {
  return to_float(Vectorized<T>::loadu(numbers));
}

// Writes through the caches.
struct Store {
  template <typename T>
  void operator()(const Vectorized<T>& vector, T* numbers) const {
    vector.store(numbers);
  }
  void finish() const {}
};

// Writes past the caches, to aligned memory; other threads may not see what was written before `finish`.
#if defined(CPU_CAPABILITY_AVX512)
struct Stream {
  void operator()(const Vectorized<float>& vector, float* numbers) const {
    _mm512_stream_ps(numbers, vector);
  }
  template <typename T>
  void operator()(const Vectorized<T>& vector, T* numbers) const {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(numbers), vector);
  }
  void finish() const {
    _mm_sfence();
  }
};
#elif defined(CPU_CAPABILITY_AVX2)
struct Stream {
  void operator()(const Vectorized<float>& vector, float* numbers) const {
    _mm256_stream_ps(numbers, vector);
  }
  template <typename T>
  void operator()(const Vectorized<T>& vector, T* numbers) const {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(numbers), vector);
  }
  void finish() const {
    _mm_sfence();
  }
};
#else
using Stream = Store;
#endif

// So much would not stay in a cache anyway, and memory need not be read before it is written: a seventh less time for 64
// million numbers from float32 to bfloat16 (measured).
template <typename Dst>
bool is_worth_streaming(const Dst* dst, int64_t count) {
  constexpr int64_t kLeastBytes = 16 << 20;
  return count * static_cast<int64_t>(sizeof(Dst)) >= kLeastBytes &&
      reinterpret_cast<uintptr_t>(dst) % (kWidth * sizeof(c10::BFloat16)) == 0;
}

template <typename Write>
void write_rounded(const Floats& floats, float* numbers, const Write& write) {
  write(std::get<0>(floats), numbers);
  write(std::get<1>(floats), numbers + kWidth / 2);
}
template <typename T, typename Write>
void write_rounded(const Floats& floats, T* numbers, const Write& write) {
  write(from_float<T>(std::get<0>(floats), std::get<1>(floats)), numbers);
}

// Converts as many numbers as fill vectors, and returns how many.
template <typename Dst, typename Src, typename Write>
int64_t cast_vectors(Dst* dst, const Src* src, int64_t count, const Write& write) {
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    write_rounded(load_floats(src + i), dst + i, write);
  }
  write.finish();
  return i;
}

template <typename Dst, typename Src>
void cast_contiguous(Dst* dst, const Src* src, int64_t count) {
  if constexpr (std::is_same_v<Dst, Src>) {
    std::memmove(dst, src, count * sizeof(Src)); // a tensor may be copied to itself
    return;
  }
  int64_t i = 0;
  if constexpr (!std::is_same_v<Dst, double> && !std::is_same_v<Src, double>) {
    i = is_worth_streaming(dst, count) ? cast_vectors(dst, src, count, Stream{})
                                       : cast_vectors(dst, src, count, Store{});
  }
  for (; i < count; ++i) {
    dst[i] = static_cast<Dst>(src[i]);
  }
}

template <typename Dst, typename Src>
void cast(const CastRun& run) {
  Dst* dst = static_cast<Dst*>(run.dst);
  const Src* src = static_cast<const Src*>(run.src);
  if (run.dst_stride == 1 && run.src_stride == 1) {
    return cast_contiguous(dst, src, run.count * run.parts);
  }
  for (int64_t i = 0; i < run.count; ++i) {
    for (int part = 0; part < run.parts; ++part) {
      dst[i * run.dst_stride * run.parts + part] = static_cast<Dst>(src[i * run.src_stride * run.parts + part]);
    }
  }
}

template <typename Dst>
constexpr std::array<CastKernel, kRealTypes> kernels_to() {
  return {&cast<Dst, float>, &cast<Dst, double>, &cast<Dst, c10::Half>, &cast<Dst, c10::BFloat16>};
}

} // namespace

#define AMPCAST_CONCATENATE(a, b) a##b
#define AMPCAST_TABLE_NAME(capability) AMPCAST_CONCATENATE(copy_cast_kernels_, capability)

extern const CopyCastKernels AMPCAST_TABLE_NAME(CPU_CAPABILITY) = {
    kernels_to<float>(),
    kernels_to<double>(),
    kernels_to<c10::Half>(),
    kernels_to<c10::BFloat16>(),
};

} // namespace ampcast::scaler::cpu
