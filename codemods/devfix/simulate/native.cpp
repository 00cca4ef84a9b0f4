// The devices of a simulated machine, as libtorch's C++ asks for them: a device guard and CUDA's hooks.
//
// `devfix simulate --build` compiles this against the headers of the installed torch (native.py), so that the compiler
// knows the layouts that guard.py and hooks.py otherwise find out and check. The answers are Python's (native.py).

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#ifdef GPU_BUILD
#include <ATen/native/transformers/attention.h>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>
#endif

using c10::Device;
using c10::DeviceIndex;
using c10::DeviceType;
using c10::Stream;

extern "C" struct Answers {
  int (*count)();
  int (*current)();
  void (*put)(int index);
  bool (*pinned)(const void* address);
  void (*pinning)();
  bool (*capturing)();
};

namespace {

Answers answers;

Device current() {
  return Device(DeviceType::CUDA, static_cast<DeviceIndex>(answers.current()));
}

// Everything is synchronous, so every event has happened, and all streams are the default one.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  DeviceType type() const override {
    return DeviceType::CUDA;
  }
  // A guard of C++ changes nothing: it may end while an exception of Python is on its way. The kernels go by the
  // devices of tensors.
  Device exchangeDevice(Device) const override {
    return current();
  }
  Device getDevice() const override {
    return current();
  }
  void setDevice(Device device) const override {
    if (device.has_index()) {
      answers.put(device.index());
    }
  }
  void uncheckedSetDevice(Device) const noexcept override {}
  DeviceIndex deviceCount() const noexcept override {
    return static_cast<DeviceIndex>(answers.count());
  }
  Stream getStream(Device device) const override {
    return Stream(Stream::DEFAULT, device);
  }
  Stream getDefaultStream(Device device) const override {
    return Stream(Stream::DEFAULT, device);
  }
  Stream getStreamFromGlobalPool(Device device, bool) const override {
    return Stream(Stream::DEFAULT, device);
  }
  Stream getNewStream(Device device, int) const override {
    return Stream(Stream::DEFAULT, device);
  }
  Stream exchangeStream(Stream stream) const override {
    return stream;
  }
  void record(void**, const Stream&, const DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const Stream&) const override {}
  bool queryEvent(void*) const override {
    return true;
  }
  void synchronizeEvent(void*) const override {}
  bool queryStream(const Stream&) const override {
    return true;
  }
  void synchronizeStream(const Stream&) const override {}
  void recordDataPtrOnStream(const c10::DataPtr&, const Stream&) const override {}
  double elapsedTime(void*, void*, const DeviceIndex) const override {
    return 0;
  }
  // Not in every torch, so without `override`.
  bool isStreamCapturing(const Stream&) const {
    return answers.capturing();
  }
  void synchronizeDevice(const DeviceIndex) const {}
};

// What is not here is the stub's of a build without CUDA.
struct Hooks final : at::CUDAHooksInterface {
  bool hasCUDA() const override {
    return true;
  }
  bool hasCUDART() const override {
    return true;
  }
  int getNumGPUs() const {
    return answers.count();
  }
  DeviceIndex current_device() const {
    return current().index();
  }
  void init() const override {}
  bool hasPrimaryContext(DeviceIndex) const override {
    return true;
  }
  bool isBuilt() const {
    return true;
  }
  bool isAvailable() const {
    return true;
  }
  DeviceIndex deviceCount() const {
    return static_cast<DeviceIndex>(answers.count());
  }
  void setCurrentDevice(DeviceIndex index) const {
    answers.put(index);
  }
  DeviceIndex getCurrentDevice() const {
    return current().index();
  }
  DeviceIndex exchangeDevice(DeviceIndex index) const {
    DeviceIndex before = current().index();
    if (index >= 0) {
      answers.put(index);
    }
    return before;
  }
  DeviceIndex maybeExchangeDevice(DeviceIndex index) const {
    return exchangeDevice(index);
  }
  bool isPinnedPtr(const void* address) const override {
    return answers.pinned(address);
  }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    answers.pinning();
    return c10::GetCPUAllocator();
  }
};

} // namespace

// Installs both, for as long as the process lives.
extern "C"
#ifdef _WIN32
    __declspec(dllexport)
#endif
        void devfix_install(const Answers* given) {
  answers = *given;
  static const Guard* guard = new Guard();
  c10::impl::device_guard_impl_registry[static_cast<size_t>(DeviceType::CUDA)].store(guard);
  // torch has made its hooks already, and keeps a pointer to them: the object, which has no fields, becomes one of ours.
  static const Hooks* hooks = new Hooks();
  auto& own = const_cast<at::CUDAHooksInterface&>(at::detail::getCUDAHooks());
  *reinterpret_cast<const void**>(&own) = *reinterpret_cast<const void* const*>(hooks);
#ifdef GPU_BUILD
  // What would ask a real GPU without coming to an operator: which attention to take, and when DDP's kernels ended.
  at::native::_fused_sdp_choice_stub.set_cuda_dispatch_ptr(nullptr);
  c10d::TimerRegistry()->Register(
      DeviceType::CUDA, [](Device) { return std::unique_ptr<c10d::Timer>(); }, c10::REGISTRY_PREFERRED);
#endif
}
