#include "scaler/cuda/gradient_walk.h"

#include "scaler/cuda/device.h"
#include "scaler/gradient_dtype.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <utility>
#include <vector>

namespace ampcast::scaler::cuda {
namespace {

// Gradients of one dtype, as far as kernels tell dtypes apart, in tables of one launch each.
class Kind {
 public:
  explicit Kind(GradientDtype dtype) : dtype_(dtype) {}

  bool is(GradientDtype dtype) const {
    return dtype_.real == dtype.real && dtype_.parts == dtype.parts;
  }
  GradientDtype dtype() const {
    return dtype_;
  }
  const std::deque<GradientTable>& tables() const {
    return tables_;
  }

  void append(void* data, int64_t numel) {
    if (tables_.empty() || tables_.back().is_full()) {
      tables_.emplace_back(kChunkBytes / size_of(dtype_.real));
    }
    tables_.back().append({data}, static_cast<uint64_t>(numel) * dtype_.parts);
  }

 private:
  GradientDtype dtype_;
  std::deque<GradientTable> tables_; // a table is large, and stays where it is
};

// All gradients, their pointers gathered once.
class GradientList {
 public:
  GradientList(at::TensorList grads, bool writes) : writes_(writes) {
    for (const at::Tensor& grad : grads) {
      if (grad.numel() != 0) {
        append(grad);
      }
    }
  }

  const std::vector<Kind>& kinds() const {
    return kinds_;
  }

  void copy_back() const {
    for (const auto& [grad, packed] : packed_) {
      if (writes_) {
        grad.copy_(packed);
      }
    }
  }

 private:
  void append(const at::Tensor& grad) {
    const at::Tensor flat = grad.is_non_overlapping_and_dense() ? grad : grad.contiguous();
    if (!flat.is_same(grad)) {
      packed_.emplace_back(grad, flat);
    }
    void* const data = writes_ ? flat.mutable_data_ptr() : const_cast<void*>(flat.const_data_ptr());
    kind_of(grad).append(data, grad.numel());
  }

  Kind& kind_of(const at::Tensor& grad) {
    const GradientDtype dtype = *gradient_dtype(grad.scalar_type());
    const auto kind = std::find_if(kinds_.begin(), kinds_.end(), [dtype](const Kind& k) { return k.is(dtype); });
    return kind != kinds_.end() ? *kind : kinds_.emplace_back(dtype);
  }

  bool writes_;
  std::vector<Kind> kinds_;
  std::vector<std::pair<at::Tensor, at::Tensor>> packed_; // a gradient with gaps, and its copy without
};

std::vector<GradientLaunch> launches_of(const GradientList& list, GradientWork work, int multiprocessors) {
  std::vector<GradientLaunch> launches;
  for (const Kind& kind : list.kinds()) {
    GradientWork kind_work = work;
    if (work.norm == Norm::kInf && kind.dtype().parts == 2) {
      kind_work.norm = Norm::kComplexInf;
    }
    for (const GradientTable& table : kind.tables()) {
      launches.push_back({table, kind.dtype().real, kind_work, blocks_for(table.chunks(), multiprocessors)});
    }
  }
  return launches;
}

unsigned blocks_of(const std::vector<GradientLaunch>& launches) {
  return std::accumulate(
      launches.begin(), launches.end(), 0U, [](unsigned sum, const GradientLaunch& l) { return sum + l.blocks; });
}

void run(const std::vector<GradientLaunch>& launches, GradientPass pass, cudaStream_t stream) {
  for (const GradientLaunch& launch : launches) {
    C10_CUDA_CHECK(launch_visit_gradients(launch, pass, stream));
    if (pass.partial_norms != nullptr) {
      pass.partial_norms += launch.blocks;
    }
  }
}

} // namespace

void walk_gradients(at::TensorList grads, const at::Tensor& on, GradientWork work, GradientPass pass, float* norm) {
  const at::AutoDispatchBelowADInplaceOrView no_autograd; // for the packed copies
  const OnDevice device(on);
  const GradientList list(grads, work.writes);
  const std::vector<GradientLaunch> launches = launches_of(list, work, device.multiprocessors());
  if (work.norm == Norm::kNone) {
    run(launches, pass, device.stream());
  } else {
    const unsigned partials = blocks_of(launches);
    const at::Tensor partial_norms = at::empty({partials}, on.options().dtype(at::kDouble));
    pass.partial_norms = partial_norms.mutable_data_ptr<double>();
    run(launches, pass, device.stream());
    C10_CUDA_CHECK(launch_finish_norm(pass.partial_norms, partials, work.norm, norm, device.stream()));
  }
  list.copy_back();
}

} // namespace ampcast::scaler::cuda
