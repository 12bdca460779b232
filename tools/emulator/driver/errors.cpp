// Names and texts of the result codes.
#include <algorithm>
#include <iterator>

#include "driver/results.h"

namespace stratum::emulator::driver {
namespace {

struct Text {
  Result code;
  const char* name;
  const char* text;
};

constexpr Text kTexts[] = {
    {kSuccess, "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {kDeinitialized, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kInvalidImage, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image for this device"},
    {kInvalidPtx, "CUDA_ERROR_INVALID_PTX", "the kernel's PTX can't be run"},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {kIllegalState, "CUDA_ERROR_ILLEGAL_STATE", "the object isn't in a state that allows this"},
    {kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {kNotReady, "CUDA_ERROR_NOT_READY", "work isn't done yet"},
    {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "a kernel accessed memory it must not"},
    {kMisalignedAddress, "CUDA_ERROR_MISALIGNED_ADDRESS", "a kernel used a misaligned address"},
    {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "a kernel failed"},
    {kCooperativeLaunchTooLarge, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in a cooperative launch"},
    {kNotPermitted, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {kNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted during a capture"},
    {kCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "an earlier error broke the capture"},
    {kCaptureMerge, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "operation would merge two captures"},
    {kCaptureUnmatched, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "the capture didn't begin in this stream"},
    {kCaptureUnjoined, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "a forked stream wasn't joined to the capture"},
    {kCaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "a dependency would cross the capture's boundary"},
    {kCaptureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "the legacy stream would depend on a capture"},
    {kCapturedEvent, "CUDA_ERROR_CAPTURED_EVENT", "the event was last recorded in a capture"},
    {kCaptureWrongThread, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "the capture was begun by another thread"},
    {kInvalidClusterSize, "CUDA_ERROR_INVALID_CLUSTER_SIZE", "invalid cluster size"},
    {kUnknown, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const Text* find(int code) {
  const auto* found = std::ranges::find(kTexts, code, [](const Text& text) { return static_cast<int>(text.code); });
  return found == std::end(kTexts) ? nullptr : found;
}

}  // namespace

extern "C" {

Result cuGetErrorName(int code, const char** name) {
  const Text* found = find(code);
  *name = found != nullptr ? found->name : nullptr;
  return found != nullptr ? kSuccess : kInvalidValue;
}

Result cuGetErrorString(int code, const char** text) {
  const Text* found = find(code);
  *text = found != nullptr ? found->text : nullptr;
  return found != nullptr ? kSuccess : kInvalidValue;
}

}  // extern "C"

}  // namespace stratum::emulator::driver
