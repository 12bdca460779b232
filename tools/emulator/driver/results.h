// CUDA's result codes, as far as the emulator gives them. Names and texts: errors.cpp.
#pragma once

namespace stratum::emulator::driver {

enum Result : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kInvalidPtx = 218,
  kInvalidHandle = 400,
  kIllegalState = 401,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kMisalignedAddress = 716,
  kLaunchFailed = 719,
  kCooperativeLaunchTooLarge = 720,
  kNotPermitted = 800,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureMerge = 902,
  kCaptureUnmatched = 903,
  kCaptureUnjoined = 904,
  kCaptureIsolation = 905,
  kCaptureImplicit = 906,
  kCapturedEvent = 907,
  kCaptureWrongThread = 908,
  kInvalidClusterSize = 912,
  kUnknown = 999,
};

}  // namespace stratum::emulator::driver
