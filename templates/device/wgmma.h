// Warpgroup products: 128 threads multiply 64 rows of A by a tile of B (sm_90a).
//
// The accumulator of a 64 x N product gives warp w the rows 16 w ... 16 w + 15, and its lanes 4 r + c of every 8
// columns (row r, columns 2c, 2c + 1) in d[4 i], d[4 i + 1], and row r + 8 in d[4 i + 2], d[4 i + 3]. Packed to 16
// bits, 16 columns of it are the A operand (in registers) of a product whose k runs over those columns.
//
// Products run asynchronously: wgmma_fence before the first of them, wgmma_commit closes a group, wgmma_wait waits for
// all but the latest groups. Until then neither accumulators nor register operands may be touched, nor shared memory be
// overwritten; `hold` behind a wait tells the compiler so.
#pragma once

#include "device/element.h"

namespace stratum {

STRATUM_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

STRATUM_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int kPending>
STRATUM_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Values that the compiler thinks are written here: what reads them stays behind, what wrote them before.
template <int kCount>
STRATUM_DEVICE void hold(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(values[i])::"memory");
}

template <class Element, int kN>
struct Wgmma;

// The four registers of each 8 columns of an accumulator: their numbers in the instruction, and the statement's
// operands with a constraint.
#define STRATUM_D4 "%0, %1, %2, %3"
#define STRATUM_D8 STRATUM_D4 ", %4, %5, %6, %7"
#define STRATUM_D12 STRATUM_D8 ", %8, %9, %10, %11"
#define STRATUM_D16 STRATUM_D12 ", %12, %13, %14, %15"
#define STRATUM_D20 STRATUM_D16 ", %16, %17, %18, %19"
#define STRATUM_D24 STRATUM_D20 ", %20, %21, %22, %23"
#define STRATUM_D28 STRATUM_D24 ", %24, %25, %26, %27"
#define STRATUM_D32 STRATUM_D28 ", %28, %29, %30, %31"
#define STRATUM_D36 STRATUM_D32 ", %32, %33, %34, %35"
#define STRATUM_D40 STRATUM_D36 ", %36, %37, %38, %39"
#define STRATUM_D44 STRATUM_D40 ", %40, %41, %42, %43"
#define STRATUM_D48 STRATUM_D44 ", %44, %45, %46, %47"
#define STRATUM_D52 STRATUM_D48 ", %48, %49, %50, %51"
#define STRATUM_D56 STRATUM_D52 ", %52, %53, %54, %55"
#define STRATUM_D60 STRATUM_D56 ", %56, %57, %58, %59"
#define STRATUM_D64 STRATUM_D60 ", %60, %61, %62, %63"
#define STRATUM_D68 STRATUM_D64 ", %64, %65, %66, %67"
#define STRATUM_D72 STRATUM_D68 ", %68, %69, %70, %71"
#define STRATUM_D76 STRATUM_D72 ", %72, %73, %74, %75"
#define STRATUM_D80 STRATUM_D76 ", %76, %77, %78, %79"
#define STRATUM_D84 STRATUM_D80 ", %80, %81, %82, %83"
#define STRATUM_D88 STRATUM_D84 ", %84, %85, %86, %87"
#define STRATUM_D92 STRATUM_D88 ", %88, %89, %90, %91"
#define STRATUM_D96 STRATUM_D92 ", %92, %93, %94, %95"
#define STRATUM_O4(constraint) constraint(d[0]), constraint(d[1]), constraint(d[2]), constraint(d[3])
#define STRATUM_O8(constraint) \
  STRATUM_O4(constraint), constraint(d[4]), constraint(d[5]), constraint(d[6]), constraint(d[7])
#define STRATUM_O12(constraint) \
  STRATUM_O8(constraint), constraint(d[8]), constraint(d[9]), constraint(d[10]), constraint(d[11])
#define STRATUM_O16(constraint) \
  STRATUM_O12(constraint), constraint(d[12]), constraint(d[13]), constraint(d[14]), constraint(d[15])
#define STRATUM_O20(constraint) \
  STRATUM_O16(constraint), constraint(d[16]), constraint(d[17]), constraint(d[18]), constraint(d[19])
#define STRATUM_O24(constraint) \
  STRATUM_O20(constraint), constraint(d[20]), constraint(d[21]), constraint(d[22]), constraint(d[23])
#define STRATUM_O28(constraint) \
  STRATUM_O24(constraint), constraint(d[24]), constraint(d[25]), constraint(d[26]), constraint(d[27])
#define STRATUM_O32(constraint) \
  STRATUM_O28(constraint), constraint(d[28]), constraint(d[29]), constraint(d[30]), constraint(d[31])
#define STRATUM_O36(constraint) \
  STRATUM_O32(constraint), constraint(d[32]), constraint(d[33]), constraint(d[34]), constraint(d[35])
#define STRATUM_O40(constraint) \
  STRATUM_O36(constraint), constraint(d[36]), constraint(d[37]), constraint(d[38]), constraint(d[39])
#define STRATUM_O44(constraint) \
  STRATUM_O40(constraint), constraint(d[40]), constraint(d[41]), constraint(d[42]), constraint(d[43])
#define STRATUM_O48(constraint) \
  STRATUM_O44(constraint), constraint(d[44]), constraint(d[45]), constraint(d[46]), constraint(d[47])
#define STRATUM_O52(constraint) \
  STRATUM_O48(constraint), constraint(d[48]), constraint(d[49]), constraint(d[50]), constraint(d[51])
#define STRATUM_O56(constraint) \
  STRATUM_O52(constraint), constraint(d[52]), constraint(d[53]), constraint(d[54]), constraint(d[55])
#define STRATUM_O60(constraint) \
  STRATUM_O56(constraint), constraint(d[56]), constraint(d[57]), constraint(d[58]), constraint(d[59])
#define STRATUM_O64(constraint) \
  STRATUM_O60(constraint), constraint(d[60]), constraint(d[61]), constraint(d[62]), constraint(d[63])
#define STRATUM_O68(constraint) \
  STRATUM_O64(constraint), constraint(d[64]), constraint(d[65]), constraint(d[66]), constraint(d[67])
#define STRATUM_O72(constraint) \
  STRATUM_O68(constraint), constraint(d[68]), constraint(d[69]), constraint(d[70]), constraint(d[71])
#define STRATUM_O76(constraint) \
  STRATUM_O72(constraint), constraint(d[72]), constraint(d[73]), constraint(d[74]), constraint(d[75])
#define STRATUM_O80(constraint) \
  STRATUM_O76(constraint), constraint(d[76]), constraint(d[77]), constraint(d[78]), constraint(d[79])
#define STRATUM_O84(constraint) \
  STRATUM_O80(constraint), constraint(d[80]), constraint(d[81]), constraint(d[82]), constraint(d[83])
#define STRATUM_O88(constraint) \
  STRATUM_O84(constraint), constraint(d[84]), constraint(d[85]), constraint(d[86]), constraint(d[87])
#define STRATUM_O92(constraint) \
  STRATUM_O88(constraint), constraint(d[88]), constraint(d[89]), constraint(d[90]), constraint(d[91])
#define STRATUM_O96(constraint) \
  STRATUM_O92(constraint), constraint(d[92]), constraint(d[93]), constraint(d[94]), constraint(d[95])

// `adds` is "0" where the accumulator is only written. The numbers of the operands behind the accumulator follow.
#define STRATUM_WGMMA_TEXT(type, kN, kCount, adds)                                                                \
  "{.reg .pred add; setp.ne.b32 add, " adds ", 0; wgmma.mma_async.sync.aligned.m64n" #kN "k16.f32." type "." type \
  " {" STRATUM_D##kCount "}, "
#define STRATUM_SS(type, kN, kCount, adds, A, B, C, D) \
  STRATUM_WGMMA_TEXT(type, kN, kCount, adds) "%" #A ", %" #B ", add, 1, 1, %" #C ", %" #D ";}"
#define STRATUM_RS(type, kN, kCount, adds, A, B, C, D, E, F) \
  STRATUM_WGMMA_TEXT(type, kN, kCount, adds) "{%" #A ", %" #B ", %" #C ", %" #D "}, %" #E ", add, 1, 1, %" #F ";}"

// The products with a B of kN columns; kCount = kN / 2 accumulator registers a thread.
//   ss: d += A B, both in shared memory and given by descriptors (swizzled_tile.h).
//   rs: the same with A in registers.
// kFirst: d = A B, d need not be initialised. kTransposeA (B): in memory its m (n) runs along the rows, not its k.
#define STRATUM_WGMMA(Element, type, kN, kCount, A, B, C, D, E, F)                            \
  template <>                                                                                 \
  struct Wgmma<Element, kN> {                                                                 \
    template <bool kFirst, int kTransposeA = 0, int kTransposeB = 0>                          \
    STRATUM_DEVICE void ss(float (&d)[kCount], u64 a, u64 b) {                                \
      if constexpr (kFirst) {                                                                 \
        asm volatile(STRATUM_SS(type, kN, kCount, "0", A, B, C, D)                            \
                     : STRATUM_O##kCount("=f")                                                \
                     : "l"(a), "l"(b), "n"(kTransposeA), "n"(kTransposeB));                   \
      } else {                                                                                \
        asm volatile(STRATUM_SS(type, kN, kCount, "1", A, B, C, D)                            \
                     : STRATUM_O##kCount("+f")                                                \
                     : "l"(a), "l"(b), "n"(kTransposeA), "n"(kTransposeB));                   \
      }                                                                                       \
    }                                                                                         \
    template <bool kFirst, int kTransposeB = 0>                                               \
    STRATUM_DEVICE void rs(float (&d)[kCount], const u32 (&a)[4], u64 b) {                    \
      if constexpr (kFirst) {                                                                 \
        asm volatile(STRATUM_RS(type, kN, kCount, "0", A, B, C, D, E, F)                      \
                     : STRATUM_O##kCount("=f")                                                \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kTransposeB)); \
      } else {                                                                                \
        asm volatile(STRATUM_RS(type, kN, kCount, "1", A, B, C, D, E, F)                      \
                     : STRATUM_O##kCount("+f")                                                \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(kTransposeB)); \
      }                                                                                       \
    }                                                                                         \
  }

// Both 16-bit types.
#define STRATUM_WGMMAS(kN, kCount, A, B, C, D, E, F)             \
  STRATUM_WGMMA(bfloat16, "bf16", kN, kCount, A, B, C, D, E, F); \
  STRATUM_WGMMA(float16, "f16", kN, kCount, A, B, C, D, E, F)

STRATUM_WGMMAS(16, 8, 8, 9, 10, 11, 12, 13);
STRATUM_WGMMAS(32, 16, 16, 17, 18, 19, 20, 21);
STRATUM_WGMMAS(48, 24, 24, 25, 26, 27, 28, 29);
STRATUM_WGMMAS(64, 32, 32, 33, 34, 35, 36, 37);
STRATUM_WGMMAS(80, 40, 40, 41, 42, 43, 44, 45);
STRATUM_WGMMAS(96, 48, 48, 49, 50, 51, 52, 53);
STRATUM_WGMMAS(112, 56, 56, 57, 58, 59, 60, 61);
STRATUM_WGMMAS(128, 64, 64, 65, 66, 67, 68, 69);
STRATUM_WGMMAS(144, 72, 72, 73, 74, 75, 76, 77);
STRATUM_WGMMAS(160, 80, 80, 81, 82, 83, 84, 85);
STRATUM_WGMMAS(176, 88, 88, 89, 90, 91, 92, 93);
STRATUM_WGMMAS(192, 96, 96, 97, 98, 99, 100, 101);

}  // namespace stratum
