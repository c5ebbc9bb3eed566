// The warpgroup matrix instruction for every width that a kernel here uses, SS and RS operand forms.
//
// Decides nothing: asm needs each accumulator register written out. d += a b with f32 accumulators of m64nN: warp w holds
// rows 16w to 16w+15; lane l rows l/4 (+8 for elements 2, 3 of each four), columns 8j + 2(l%4) + {0, 1}.
// `accumulate` false overwrites d. Included by arch/sm90.cuh only. Source: PTX ISA 8.7, wgmma.mma_async.
#pragma once

// Operand place holders %0 to %127, eight a name, so that a width is a concatenation.
#define TJ_P0 "%0, %1, %2, %3, %4, %5, %6, %7"
#define TJ_P1 "%8, %9, %10, %11, %12, %13, %14, %15"
#define TJ_P2 "%16, %17, %18, %19, %20, %21, %22, %23"
#define TJ_P3 "%24, %25, %26, %27, %28, %29, %30, %31"
#define TJ_P4 "%32, %33, %34, %35, %36, %37, %38, %39"
#define TJ_P5 "%40, %41, %42, %43, %44, %45, %46, %47"
#define TJ_P6 "%48, %49, %50, %51, %52, %53, %54, %55"
#define TJ_P7 "%56, %57, %58, %59, %60, %61, %62, %63"
#define TJ_P8 "%64, %65, %66, %67, %68, %69, %70, %71"
#define TJ_P9 "%72, %73, %74, %75, %76, %77, %78, %79"
#define TJ_P10 "%80, %81, %82, %83, %84, %85, %86, %87"
#define TJ_P11 "%88, %89, %90, %91, %92, %93, %94, %95"
#define TJ_P12 "%96, %97, %98, %99, %100, %101, %102, %103"
#define TJ_P13 "%104, %105, %106, %107, %108, %109, %110, %111"
#define TJ_P14 "%112, %113, %114, %115, %116, %117, %118, %119"
#define TJ_P15 "%120, %121, %122, %123, %124, %125, %126, %127"

#define TJ_LIST_64 TJ_P0 ", " TJ_P1 ", " TJ_P2 ", " TJ_P3
#define TJ_LIST_128 TJ_LIST_64 ", " TJ_P4 ", " TJ_P5 ", " TJ_P6 ", " TJ_P7
#define TJ_LIST_160 TJ_LIST_128 ", " TJ_P8 ", " TJ_P9
#define TJ_LIST_176 TJ_LIST_160 ", " TJ_P10
#define TJ_LIST_192 TJ_LIST_176 ", " TJ_P11
#define TJ_LIST_256 TJ_LIST_192 ", " TJ_P12 ", " TJ_P13 ", " TJ_P14 ", " TJ_P15

#define TJ_R8(d, k) "+f"(d[8 * k]), "+f"(d[8 * k + 1]), "+f"(d[8 * k + 2]), "+f"(d[8 * k + 3]), "+f"(d[8 * k + 4]), \
    "+f"(d[8 * k + 5]), "+f"(d[8 * k + 6]), "+f"(d[8 * k + 7])
#define TJ_REGS_64(d) TJ_R8(d, 0), TJ_R8(d, 1), TJ_R8(d, 2), TJ_R8(d, 3)
#define TJ_REGS_128(d) TJ_REGS_64(d), TJ_R8(d, 4), TJ_R8(d, 5), TJ_R8(d, 6), TJ_R8(d, 7)
#define TJ_REGS_160(d) TJ_REGS_128(d), TJ_R8(d, 8), TJ_R8(d, 9)
#define TJ_REGS_176(d) TJ_REGS_160(d), TJ_R8(d, 10)
#define TJ_REGS_192(d) TJ_REGS_176(d), TJ_R8(d, 11)
#define TJ_REGS_256(d) TJ_REGS_192(d), TJ_R8(d, 12), TJ_R8(d, 13), TJ_R8(d, 14), TJ_R8(d, 15)

// Place holders after the accumulators: descriptors or A registers, then the predicate's source.
#define TJ_WGMMA_SS(Tag, type, N, a, b, p, transpose)                                                              \
  TJ_DEVICE void wgmma_ss_##transpose(Tag, float (&d)[N / 2], u64 left, u64 right, bool accumulate) {              \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " p ", 0;\n"                                                    \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " {" TJ_LIST_##N "}, " a ", " b     \
                 ", p, 1, 1, 0, " #transpose ";\n}\n"                                                              \
                 : TJ_REGS_##N(d)                                                                                  \
                 : "l"(left), "l"(right), "r"(static_cast<u32>(accumulate)));                                      \
  }
#define TJ_WGMMA_RS(Tag, type, N, a0, a1, a2, a3, b, p, transpose)                                                 \
  TJ_DEVICE void wgmma_rs_##transpose(Tag, float (&d)[N / 2], u32 left0, u32 left1, u32 left2, u32 left3, u64 right, \
                                      bool accumulate) {                                                           \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " p ", 0;\n"                                                    \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " {" TJ_LIST_##N "}, {" a0 ", " a1  \
                 ", " a2 ", " a3 "}, " b ", p, 1, 1, " #transpose ";\n}\n"                                         \
                 : TJ_REGS_##N(d)                                                                                  \
                 : "r"(left0), "r"(left1), "r"(left2), "r"(left3), "l"(right), "r"(static_cast<u32>(accumulate))); \
  }
#define TJ_WGMMA(N, o0, o1, o2, o3, o4, o5)                        \
  TJ_WGMMA_SS(F16, "f16", N, o0, o1, o2, 0)                        \
  TJ_WGMMA_SS(F16, "f16", N, o0, o1, o2, 1)                        \
  TJ_WGMMA_SS(Bf16, "bf16", N, o0, o1, o2, 0)                      \
  TJ_WGMMA_SS(Bf16, "bf16", N, o0, o1, o2, 1)                      \
  TJ_WGMMA_RS(F16, "f16", N, o0, o1, o2, o3, o4, o5, 0)            \
  TJ_WGMMA_RS(F16, "f16", N, o0, o1, o2, o3, o4, o5, 1)            \
  TJ_WGMMA_RS(Bf16, "bf16", N, o0, o1, o2, o3, o4, o5, 0)          \
  TJ_WGMMA_RS(Bf16, "bf16", N, o0, o1, o2, o3, o4, o5, 1)

namespace tj::dev {

TJ_WGMMA(64, "%32", "%33", "%34", "%35", "%36", "%37")
TJ_WGMMA(128, "%64", "%65", "%66", "%67", "%68", "%69")
TJ_WGMMA(160, "%80", "%81", "%82", "%83", "%84", "%85")
TJ_WGMMA(176, "%88", "%89", "%90", "%91", "%92", "%93")
TJ_WGMMA(192, "%96", "%97", "%98", "%99", "%100", "%101")
TJ_WGMMA(256, "%128", "%129", "%130", "%131", "%132", "%133")

/// d (+)= a b, both operands in shared memory; TransposeB: b is stored MN-major. The whole warpgroup executes it.
template <bool TransposeB, class Tag, int Half>
TJ_DEVICE void matrix_multiply(Tag tag, float (&d)[Half], u64 a, u64 b, bool accumulate) {
  if constexpr (TransposeB) wgmma_ss_1(tag, d, a, b, accumulate);
  else wgmma_ss_0(tag, d, a, b, accumulate);
}
/// The same with a in registers: a[0..3] is the 64x16 fragment of this thread.
template <bool TransposeB, class Tag, int Half>
TJ_DEVICE void matrix_multiply(Tag tag, float (&d)[Half], const u32* a, u64 b, bool accumulate) {
  if constexpr (TransposeB) wgmma_rs_1(tag, d, a[0], a[1], a[2], a[3], b, accumulate);
  else wgmma_rs_0(tag, d, a[0], a[1], a[2], a[3], b, accumulate);
}

}  // namespace tj::dev
