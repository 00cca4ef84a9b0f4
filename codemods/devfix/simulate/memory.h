// The same memory as a CPU tensor and as a tensor of a simulated device, and how much of it there is: for kernels.cpp.

#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace {

constexpr int64_t STEP = 512, SEGMENT = int64_t(1) << 21; // of CUDA's allocator
constexpr int DEVICES = 64;

// As in native_kernels.py.
struct Memory {
  std::atomic<int64_t> allocated, blocks, peak, reserved, ever, ever_blocks;
};
struct Shared {
  int64_t careful; // there is more to do for each kernel
  int64_t used; // CUDA has been used, so that forks are known to be late
  int64_t devices;
  std::atomic<int64_t> kernels;
  Memory memory[DEVICES];
};
Shared shared_with_python; // memory is freed after Python has ended
Shared* const shared = &shared_with_python;

struct Block {
  c10::Storage memory; // the CPU's
  int64_t bytes;
  int index;
};

int64_t in_steps(int64_t bytes, int64_t step) {
  return (bytes + step - 1) / step * step;
}

void reach(std::atomic<int64_t>& most, int64_t value) {
  auto known = most.load();
  while (known < value && !most.compare_exchange_weak(known, value)) {
  }
}

void allocate(int index, int64_t bytes) {
  auto& memory = shared->memory[index];
  auto allocated = memory.allocated += bytes;
  memory.blocks += bytes != 0;
  memory.ever += bytes;
  memory.ever_blocks += bytes != 0;
  reach(memory.peak, allocated);
  reach(memory.reserved, in_steps(allocated, SEGMENT));
}

void release(void* held) {
  auto* block = static_cast<Block*>(held);
  shared->memory[block->index].allocated -= block->bytes;
  shared->memory[block->index].blocks -= block->bytes != 0;
  delete block;
}

void release_alias(void* held) {
  delete static_cast<c10::Storage*>(held);
}

c10::Storage made(c10::DataPtr data, const c10::Storage& like) {
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), like.nbytes(), std::move(data), nullptr, false));
}

c10::Storage on_cpu(const c10::Storage& storage) {
  auto* data = storage.unsafeGetStorageImpl()->mutable_data();
  return made(c10::DataPtr(data, new c10::Storage(storage), &release_alias, at::kCPU), storage);
}

c10::Storage on_device(const c10::Storage& storage, int index) {
  const auto& data = storage.data_ptr();
  if (data.get_deleter() == &release_alias) {
    const auto& origin = *static_cast<c10::Storage*>(data.get_context());
    if (origin.device().index() == index) {
      return origin;
    }
  }
  auto* address = storage.unsafeGetStorageImpl()->mutable_data();
  auto bytes = in_steps(static_cast<int64_t>(storage.nbytes()), STEP);
  allocate(index, bytes);
  auto device = at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(index));
  return made(c10::DataPtr(address, new Block{storage, bytes, index}, &release, device), storage);
}

at::Tensor relabelled(const at::Tensor& tensor, c10::Storage storage, c10::DispatchKey key) {
  auto made = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), tensor.dtype());
  auto* impl = made.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    impl->set_wrapped_number(true);
  }
  if (tensor.is_conj()) {
    made._set_conj(true);
  }
  if (tensor.is_neg()) {
    made._set_neg(true);
  }
  return made;
}

bool is_dense(const at::Tensor& tensor) {
  auto* impl = tensor.unsafeGetTensorImpl();
  return tensor.layout() == at::kStrided && impl->has_storage() && !impl->is_python_dispatch() &&
      !impl->has_symbolic_sizes_strides() && !tensor.is_nested() && !tensor.is_quantized();
}

bool is_plain(const at::Tensor& tensor) {
  return is_dense(tensor) && !tensor.is_conj() && !tensor.is_neg() && !tensor._is_zerotensor();
}

at::Tensor relabel(const at::Tensor& tensor, int64_t index) {
  return index < 0 ? relabelled(tensor, on_cpu(tensor.storage()), c10::DispatchKey::CPU)
                   : relabelled(tensor, on_device(tensor.storage(), static_cast<int>(index)), c10::DispatchKey::CUDA);
}

// What resizing a storage does on CUDA: other memory, and what fits of the old one in it.
void resize(const at::Tensor& tensor, int64_t bytes) {
  auto* storage = tensor.storage().unsafeGetStorageImpl();
  int index = tensor.get_device();
  c10::Storage memory(c10::Storage::use_byte_size_t(), bytes, c10::GetCPUAllocator(), false);
  auto* address = memory.unsafeGetStorageImpl()->mutable_data();
  auto kept = std::min<int64_t>(bytes, static_cast<int64_t>(storage->nbytes()));
  if (kept > 0) {
    std::memcpy(address, storage->mutable_data(), kept);
  }
  auto size = in_steps(bytes, STEP);
  allocate(index, size);
  storage->set_data_ptr_noswap(c10::DataPtr(address, new Block{memory, size, index}, &release, tensor.device()));
  storage->set_nbytes(bytes);
}

} // namespace
