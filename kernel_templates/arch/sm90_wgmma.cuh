// The warpgroup matrix instruction for every width that a kernel here uses. Both operands are in shared memory (SS), or
// the left one in registers (RS); a statement has one or four steps. A step is 32 bytes of K: 16 elements of 16 bits,
// 32 of e4m3. Operands of 8 bits come from shared memory, K-major: the instruction has no other form for them there,
// and RS is not needed.
//
// Decides nothing: asm needs each accumulator register written out, and one statement for four steps takes the compiler
// less time than four. The instruction is d += a b with f32 accumulators of m64nN. Warp w holds rows 16w to 16w+15.
// Lane l holds rows l/4 (+8 for elements 2, 3 of each four), columns 8j + 2(l%4) + {0, 1}. `accumulate` false
// overwrites d. Included by arch/sm90.cuh only. Source: PTX ISA 8.7, wgmma.mma_async.
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

// Half of the next eight, for widths that are no multiples of 16.
#define TJ_H1 "%8, %9, %10, %11"
#define TJ_H2 "%16, %17, %18, %19"
#define TJ_H3 "%24, %25, %26, %27"
#define TJ_H4 "%32, %33, %34, %35"
#define TJ_H5 "%40, %41, %42, %43"
#define TJ_H6 "%48, %49, %50, %51"
#define TJ_H7 "%56, %57, %58, %59"
#define TJ_H8 "%64, %65, %66, %67"
#define TJ_H9 "%72, %73, %74, %75"
#define TJ_H10 "%80, %81, %82, %83"
#define TJ_H11 "%88, %89, %90, %91"
#define TJ_H12 "%96, %97, %98, %99"
#define TJ_H13 "%104, %105, %106, %107"
#define TJ_H14 "%112, %113, %114, %115"

#define TJ_LIST_16 TJ_P0
#define TJ_LIST_24 TJ_P0 ", " TJ_H1
#define TJ_LIST_32 TJ_P0 ", " TJ_P1
#define TJ_LIST_40 TJ_LIST_32 ", " TJ_H2
#define TJ_LIST_48 TJ_LIST_32 ", " TJ_P2
#define TJ_LIST_56 TJ_LIST_48 ", " TJ_H3
#define TJ_LIST_64 TJ_LIST_48 ", " TJ_P3
#define TJ_LIST_72 TJ_LIST_64 ", " TJ_H4
#define TJ_LIST_80 TJ_LIST_64 ", " TJ_P4
#define TJ_LIST_88 TJ_LIST_80 ", " TJ_H5
#define TJ_LIST_96 TJ_LIST_80 ", " TJ_P5
#define TJ_LIST_104 TJ_LIST_96 ", " TJ_H6
#define TJ_LIST_112 TJ_LIST_96 ", " TJ_P6
#define TJ_LIST_120 TJ_LIST_112 ", " TJ_H7
#define TJ_LIST_128 TJ_LIST_112 ", " TJ_P7
#define TJ_LIST_136 TJ_LIST_128 ", " TJ_H8
#define TJ_LIST_144 TJ_LIST_128 ", " TJ_P8
#define TJ_LIST_152 TJ_LIST_144 ", " TJ_H9
#define TJ_LIST_160 TJ_LIST_144 ", " TJ_P9
#define TJ_LIST_168 TJ_LIST_160 ", " TJ_H10
#define TJ_LIST_176 TJ_LIST_160 ", " TJ_P10
#define TJ_LIST_184 TJ_LIST_176 ", " TJ_H11
#define TJ_LIST_192 TJ_LIST_176 ", " TJ_P11
#define TJ_LIST_200 TJ_LIST_192 ", " TJ_H12
#define TJ_LIST_208 TJ_LIST_192 ", " TJ_P12
#define TJ_LIST_216 TJ_LIST_208 ", " TJ_H13
#define TJ_LIST_224 TJ_LIST_208 ", " TJ_P13
#define TJ_LIST_232 TJ_LIST_224 ", " TJ_H14
#define TJ_LIST_240 TJ_LIST_224 ", " TJ_P14
#define TJ_LIST_256 TJ_LIST_240 ", " TJ_P15

#define TJ_R8(d, k)                                                                                                   \
  "+f"(d[8 * k]), "+f"(d[8 * k + 1]), "+f"(d[8 * k + 2]), "+f"(d[8 * k + 3]), "+f"(d[8 * k + 4]), "+f"(d[8 * k + 5]), \
      "+f"(d[8 * k + 6]), "+f"(d[8 * k + 7])
#define TJ_R4(d, k) "+f"(d[8 * k]), "+f"(d[8 * k + 1]), "+f"(d[8 * k + 2]), "+f"(d[8 * k + 3])
#define TJ_REGS_16(d) TJ_R8(d, 0)
#define TJ_REGS_24(d) TJ_R8(d, 0), TJ_R4(d, 1)
#define TJ_REGS_32(d) TJ_R8(d, 0), TJ_R8(d, 1)
#define TJ_REGS_40(d) TJ_REGS_32(d), TJ_R4(d, 2)
#define TJ_REGS_48(d) TJ_REGS_32(d), TJ_R8(d, 2)
#define TJ_REGS_56(d) TJ_REGS_48(d), TJ_R4(d, 3)
#define TJ_REGS_64(d) TJ_REGS_48(d), TJ_R8(d, 3)
#define TJ_REGS_72(d) TJ_REGS_64(d), TJ_R4(d, 4)
#define TJ_REGS_80(d) TJ_REGS_64(d), TJ_R8(d, 4)
#define TJ_REGS_88(d) TJ_REGS_80(d), TJ_R4(d, 5)
#define TJ_REGS_96(d) TJ_REGS_80(d), TJ_R8(d, 5)
#define TJ_REGS_104(d) TJ_REGS_96(d), TJ_R4(d, 6)
#define TJ_REGS_112(d) TJ_REGS_96(d), TJ_R8(d, 6)
#define TJ_REGS_120(d) TJ_REGS_112(d), TJ_R4(d, 7)
#define TJ_REGS_128(d) TJ_REGS_112(d), TJ_R8(d, 7)
#define TJ_REGS_136(d) TJ_REGS_128(d), TJ_R4(d, 8)
#define TJ_REGS_144(d) TJ_REGS_128(d), TJ_R8(d, 8)
#define TJ_REGS_152(d) TJ_REGS_144(d), TJ_R4(d, 9)
#define TJ_REGS_160(d) TJ_REGS_144(d), TJ_R8(d, 9)
#define TJ_REGS_168(d) TJ_REGS_160(d), TJ_R4(d, 10)
#define TJ_REGS_176(d) TJ_REGS_160(d), TJ_R8(d, 10)
#define TJ_REGS_184(d) TJ_REGS_176(d), TJ_R4(d, 11)
#define TJ_REGS_192(d) TJ_REGS_176(d), TJ_R8(d, 11)
#define TJ_REGS_200(d) TJ_REGS_192(d), TJ_R4(d, 12)
#define TJ_REGS_208(d) TJ_REGS_192(d), TJ_R8(d, 12)
#define TJ_REGS_216(d) TJ_REGS_208(d), TJ_R4(d, 13)
#define TJ_REGS_224(d) TJ_REGS_208(d), TJ_R8(d, 13)
#define TJ_REGS_232(d) TJ_REGS_224(d), TJ_R4(d, 14)
#define TJ_REGS_240(d) TJ_REGS_224(d), TJ_R8(d, 14)
#define TJ_REGS_256(d) TJ_REGS_240(d), TJ_R8(d, 15)

// One instruction: operands as text, `sum` the predicate that keeps d.
#define TJ_MMA(type, N, left, right, sum, tail) \
  "wgmma.mma_async.sync.aligned.m64n" #N type " {" TJ_LIST_##N "}, " left ", " right ", " sum ", 1, 1" tail ";\n"
#define TJ_BEGIN(sum) \
  "{\n.reg .pred first, more;\n.reg .b64 a, b;\nsetp.ne.b32 first, " sum ", 0;\nsetp.ne.b32 more, 1, 0;\n"
#define TJ_NEXT(x, from, step) "add.s64 " x ", " from ", " step ";\n"

// Types and K of one instruction, and how it is told the orders of its operands: by two immediates, or not at all.
#define TJ_TYPE_F16 "k16.f32.f16.f16"
#define TJ_TYPE_BF16 "k16.f32.bf16.bf16"
#define TJ_TYPE_E4M3 "k32.f32.e4m3.e4m3"
#define TJ_ORDERS(left, right) ", " left ", " right
#define TJ_K_MAJOR(left, right)

// Place holders after the accumulators: left, right, accumulate, is left MN-major, is right, and for four steps left
// and right step.
#define TJ_SS(Tag, type, Orders, N, o0, o1, o2, o3, o4, o5, o6)                                                        \
  template <int LeftMn, int RightMn>                                                                                   \
  TJ_DEVICE void wgmma_ss1(Tag, float(&d)[N / 2], u64 left, u64 right, bool accumulate) {                              \
    asm volatile(TJ_BEGIN(o2) TJ_MMA(type, N, o0, o1, "first", Orders(o3, o4)) "}\n"                                   \
                 : TJ_REGS_##N(d)                                                                                      \
                 : "l"(left), "l"(right), "r"(static_cast<u32>(accumulate)), "n"(LeftMn), "n"(RightMn));               \
  }                                                                                                                    \
  template <int LeftStep, int RightStep, int LeftMn, int RightMn>                                                      \
  TJ_DEVICE void wgmma_ss4(Tag, float(&d)[N / 2], u64 left, u64 right, bool accumulate) {                              \
    asm volatile(TJ_BEGIN(o2) TJ_MMA(type, N, o0, o1, "first", Orders(o3, o4)) TJ_NEXT("a", o0, o5)                    \
                     TJ_NEXT("b", o1, o6) TJ_MMA(type, N, "a", "b", "more", Orders(o3, o4)) TJ_NEXT("a", "a", o5)      \
                         TJ_NEXT("b", "b", o6) TJ_MMA(type, N, "a", "b", "more", Orders(o3, o4)) TJ_NEXT("a", "a", o5) \
                             TJ_NEXT("b", "b", o6) TJ_MMA(type, N, "a", "b", "more", Orders(o3, o4)) "}\n"             \
                 : TJ_REGS_##N(d)                                                                                      \
                 : "l"(left), "l"(right), "r"(static_cast<u32>(accumulate)), "n"(LeftMn), "n"(RightMn), "n"(LeftStep), \
                   "n"(RightStep));                                                                                    \
  }

// After the accumulators: right, accumulate, right step, then the left registers, four a step.
#define TJ_A(a0, a1, a2, a3) "{" a0 ", " a1 ", " a2 ", " a3 "}"
#define TJ_RS(Tag, type, N, T, o0, o1, o2, a0, a1, a2, a3, b0, b1, b2, b3, c0, c1, c2, c3, d0, d1, d2, d3)           \
  TJ_DEVICE void wgmma_rs1_##T(Tag, float(&d)[N / 2], const u32* left, u64 right, bool accumulate) {                 \
    asm volatile(TJ_BEGIN(o1) TJ_MMA(type, N, TJ_A(a0, a1, a2, a3), o0, "first", ", " #T) "}\n"                      \
                 : TJ_REGS_##N(d)                                                                                    \
                 : "l"(right), "r"(static_cast<u32>(accumulate)), "n"(0), "r"(left[0]), "r"(left[1]), "r"(left[2]),  \
                   "r"(left[3]));                                                                                    \
  }                                                                                                                  \
  template <int RightStep>                                                                                           \
  TJ_DEVICE void wgmma_rs4_##T(Tag, float(&d)[N / 2], const u32* left, u64 right, bool accumulate) {                 \
    asm volatile(TJ_BEGIN(o1) TJ_MMA(type, N, TJ_A(a0, a1, a2, a3), o0, "first", ", " #T) TJ_NEXT("b", o0, o2)       \
                     TJ_MMA(type, N, TJ_A(b0, b1, b2, b3), "b", "more", ", " #T) TJ_NEXT("b", "b", o2)               \
                         TJ_MMA(type, N, TJ_A(c0, c1, c2, c3), "b", "more", ", " #T) TJ_NEXT("b", "b", o2)           \
                             TJ_MMA(type, N, TJ_A(d0, d1, d2, d3), "b", "more", ", " #T) "}\n"                       \
                 : TJ_REGS_##N(d)                                                                                    \
                 : "l"(right), "r"(static_cast<u32>(accumulate)), "n"(RightStep), "r"(left[0]), "r"(left[1]),        \
                   "r"(left[2]), "r"(left[3]), "r"(left[4]), "r"(left[5]), "r"(left[6]), "r"(left[7]), "r"(left[8]), \
                   "r"(left[9]), "r"(left[10]), "r"(left[11]), "r"(left[12]), "r"(left[13]), "r"(left[14]),          \
                   "r"(left[15]));                                                                                   \
  }

// The next place holders of each width, by name: TJ_O_64 is "%32", "%33", ...
#define TJ_S_16 "%8", "%9", "%10", "%11", "%12", "%13", "%14"
#define TJ_S_24 "%12", "%13", "%14", "%15", "%16", "%17", "%18"
#define TJ_S_40 "%20", "%21", "%22", "%23", "%24", "%25", "%26"
#define TJ_S_48 "%24", "%25", "%26", "%27", "%28", "%29", "%30"
#define TJ_S_56 "%28", "%29", "%30", "%31", "%32", "%33", "%34"
#define TJ_S_80 "%40", "%41", "%42", "%43", "%44", "%45", "%46"
#define TJ_S_112 "%56", "%57", "%58", "%59", "%60", "%61", "%62"
#define TJ_S_72 "%36", "%37", "%38", "%39", "%40", "%41", "%42"
#define TJ_S_88 "%44", "%45", "%46", "%47", "%48", "%49", "%50"
#define TJ_S_104 "%52", "%53", "%54", "%55", "%56", "%57", "%58"
#define TJ_S_120 "%60", "%61", "%62", "%63", "%64", "%65", "%66"
#define TJ_S_144 "%72", "%73", "%74", "%75", "%76", "%77", "%78"
#define TJ_S_136 "%68", "%69", "%70", "%71", "%72", "%73", "%74"
#define TJ_S_152 "%76", "%77", "%78", "%79", "%80", "%81", "%82"
#define TJ_S_168 "%84", "%85", "%86", "%87", "%88", "%89", "%90"
#define TJ_S_184 "%92", "%93", "%94", "%95", "%96", "%97", "%98"
#define TJ_S_200 "%100", "%101", "%102", "%103", "%104", "%105", "%106"
#define TJ_S_216 "%108", "%109", "%110", "%111", "%112", "%113", "%114"
#define TJ_S_232 "%116", "%117", "%118", "%119", "%120", "%121", "%122"
#define TJ_S_208 "%104", "%105", "%106", "%107", "%108", "%109", "%110"
#define TJ_S_240 "%120", "%121", "%122", "%123", "%124", "%125", "%126"
#define TJ_S_32 "%16", "%17", "%18", "%19", "%20", "%21", "%22"
#define TJ_O_32                                                                                                   \
  "%16", "%17", "%18", "%19", "%20", "%21", "%22", "%23", "%24", "%25", "%26", "%27", "%28", "%29", "%30", "%31", \
      "%32", "%33", "%34"
#define TJ_S_64 "%32", "%33", "%34", "%35", "%36", "%37", "%38"
#define TJ_O_64                                                                                                   \
  "%32", "%33", "%34", "%35", "%36", "%37", "%38", "%39", "%40", "%41", "%42", "%43", "%44", "%45", "%46", "%47", \
      "%48", "%49", "%50"
#define TJ_S_96 "%48", "%49", "%50", "%51", "%52", "%53", "%54"
#define TJ_O_96                                                                                                   \
  "%48", "%49", "%50", "%51", "%52", "%53", "%54", "%55", "%56", "%57", "%58", "%59", "%60", "%61", "%62", "%63", \
      "%64", "%65", "%66"
#define TJ_S_128 "%64", "%65", "%66", "%67", "%68", "%69", "%70"
#define TJ_O_128                                                                                                  \
  "%64", "%65", "%66", "%67", "%68", "%69", "%70", "%71", "%72", "%73", "%74", "%75", "%76", "%77", "%78", "%79", \
      "%80", "%81", "%82"
#define TJ_S_160 "%80", "%81", "%82", "%83", "%84", "%85", "%86"
#define TJ_O_160                                                                                                  \
  "%80", "%81", "%82", "%83", "%84", "%85", "%86", "%87", "%88", "%89", "%90", "%91", "%92", "%93", "%94", "%95", \
      "%96", "%97", "%98"
#define TJ_S_176 "%88", "%89", "%90", "%91", "%92", "%93", "%94"
#define TJ_O_176                                                                                                      \
  "%88", "%89", "%90", "%91", "%92", "%93", "%94", "%95", "%96", "%97", "%98", "%99", "%100", "%101", "%102", "%103", \
      "%104", "%105", "%106"
#define TJ_S_192 "%96", "%97", "%98", "%99", "%100", "%101", "%102"
#define TJ_O_192                                                                                                      \
  "%96", "%97", "%98", "%99", "%100", "%101", "%102", "%103", "%104", "%105", "%106", "%107", "%108", "%109", "%110", \
      "%111", "%112", "%113", "%114"
#define TJ_S_224 "%112", "%113", "%114", "%115", "%116", "%117", "%118"
#define TJ_O_224                                                                                                  \
  "%112", "%113", "%114", "%115", "%116", "%117", "%118", "%119", "%120", "%121", "%122", "%123", "%124", "%125", \
      "%126", "%127", "%128", "%129", "%130"
#define TJ_S_256 "%128", "%129", "%130", "%131", "%132", "%133", "%134"
#define TJ_O_256                                                                                                  \
  "%128", "%129", "%130", "%131", "%132", "%133", "%134", "%135", "%136", "%137", "%138", "%139", "%140", "%141", \
      "%142", "%143", "%144", "%145", "%146"

#define TJ_EXPAND(macro, ...) macro(__VA_ARGS__)
// Widths that products alone use: both operands from shared memory.
#define TJ_WGMMA_SHARED(N)                                     \
  TJ_EXPAND(TJ_SS, F16, TJ_TYPE_F16, TJ_ORDERS, N, TJ_S_##N)   \
  TJ_EXPAND(TJ_SS, Bf16, TJ_TYPE_BF16, TJ_ORDERS, N, TJ_S_##N) \
  TJ_EXPAND(TJ_SS, E4m3, TJ_TYPE_E4M3, TJ_K_MAJOR, N, TJ_S_##N)
#define TJ_WGMMA(N)                                    \
  TJ_WGMMA_SHARED(N)                                   \
  TJ_EXPAND(TJ_RS, F16, TJ_TYPE_F16, N, 0, TJ_O_##N)   \
  TJ_EXPAND(TJ_RS, F16, TJ_TYPE_F16, N, 1, TJ_O_##N)   \
  TJ_EXPAND(TJ_RS, Bf16, TJ_TYPE_BF16, N, 0, TJ_O_##N) \
  TJ_EXPAND(TJ_RS, Bf16, TJ_TYPE_BF16, N, 1, TJ_O_##N)

namespace tj::dev {

// A unit that names its widths (TJ_MATRIX_WIDTHS, TJ_MATRIX_WIDTH_<N>) has those alone. Reading all of them takes the
// compiler longer than reading every other file.
#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_16)
TJ_WGMMA_SHARED(16)
#endif
#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_24)
TJ_WGMMA_SHARED(24)
#endif
#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_40)
TJ_WGMMA_SHARED(40)
#endif
#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_48)
TJ_WGMMA_SHARED(48)
#endif
#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_56)
TJ_WGMMA_SHARED(56)
#endif
#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_80)
TJ_WGMMA_SHARED(80)
#endif
#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_112)
TJ_WGMMA_SHARED(112)
#endif
#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_72)
TJ_WGMMA_SHARED(72)
#endif
#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_88)
TJ_WGMMA_SHARED(88)
#endif
#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_104)
TJ_WGMMA_SHARED(104)
#endif
#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_120)
TJ_WGMMA_SHARED(120)
#endif
#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_144)
TJ_WGMMA_SHARED(144)
#endif
#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_136)
TJ_WGMMA_SHARED(136)
#endif
#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_152)
TJ_WGMMA_SHARED(152)
#endif
#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_168)
TJ_WGMMA_SHARED(168)
#endif
#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_184)
TJ_WGMMA_SHARED(184)
#endif
#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_200)
TJ_WGMMA_SHARED(200)
#endif
#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_216)
TJ_WGMMA_SHARED(216)
#endif
#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_232)
TJ_WGMMA_SHARED(232)
#endif
#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_208)
TJ_WGMMA_SHARED(208)
#endif
#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_240)
TJ_WGMMA_SHARED(240)
#endif

}  // namespace tj::dev

// Widths whose left operand may be in registers.
namespace tj::dev {

#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_32)
TJ_WGMMA(32)
#endif
#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_64)
TJ_WGMMA(64)
#endif
#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_96)
TJ_WGMMA(96)
#endif
#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_128)
TJ_WGMMA(128)
#endif
#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_160)
TJ_WGMMA(160)
#endif
#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_176)
TJ_WGMMA(176)
#endif
#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_192)
TJ_WGMMA(192)
#endif
#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_224)
TJ_WGMMA(224)
#endif
#if !defined(TJ_MATRIX_WIDTHS) || defined(TJ_MATRIX_WIDTH_256)
TJ_WGMMA(256)
#endif

/// d (+)= a b, both operands in shared memory; MnMajor (kLeftMn, kRightMn or both) says which is stored so. The whole
/// warpgroup executes it.
template <int MnMajor, class Tag, int Half>
TJ_DEVICE void matrix_multiply(Tag tag, float (&d)[Half], u64 a, u64 b, bool accumulate) {
  static_assert(kElementBytes<Tag> == 2 || MnMajor == 0, "operands of 8 bits are K-major");
  wgmma_ss1<(MnMajor & kLeftMn) != 0, (MnMajor & kRightMn) != 0>(tag, d, a, b, accumulate);
}
/// A product with a in registers: a[0..3] is the 64x16 fragment of this thread.
template <int MnMajor, class Tag, int Half>
TJ_DEVICE void matrix_multiply(Tag tag, float (&d)[Half], const u32* a, u64 b, bool accumulate) {
  static_assert((MnMajor & kLeftMn) == 0, "registers have one order");
  static_assert(kElementBytes<Tag> == 2, "operands of 8 bits come from shared memory");
  if constexpr (MnMajor == kRightMn)
    wgmma_rs1_1(tag, d, a, b, accumulate);
  else
    wgmma_rs1_0(tag, d, a, b, accumulate);
}

/// How far a multiplication goes: `Steps` steps of 32 bytes of K; each moves the operands in shared memory on by the
/// bytes given. MnMajor: which operands in shared memory are stored so.
template <int Steps, int LeftBytes, int RightBytes, int MnMajor>
struct MatrixSteps {
  static constexpr int kSteps = Steps, kLeftBytes = LeftBytes, kRightBytes = RightBytes;
  static constexpr int kMnMajor = MnMajor;
};
/// Several steps of either form; a in registers moves on by four a step.
template <class S, class Tag, int Half>
TJ_DEVICE void matrix_multiply(Tag tag, float (&d)[Half], u64 a, u64 b, bool accumulate) {
  static_assert(kElementBytes<Tag> == 2 || S::kMnMajor == 0, "operands of 8 bits are K-major");
  constexpr int kNow = S::kSteps >= 4 ? 4 : 1;
  if constexpr (kNow == 1)
    matrix_multiply<S::kMnMajor>(tag, d, a, b, accumulate);
  else
    wgmma_ss4<S::kLeftBytes / 16, S::kRightBytes / 16, (S::kMnMajor & kLeftMn) != 0, (S::kMnMajor & kRightMn) != 0>(
        tag, d, a, b, accumulate);
  if constexpr (S::kSteps > kNow)
    matrix_multiply<MatrixSteps<S::kSteps - kNow, S::kLeftBytes, S::kRightBytes, S::kMnMajor>>(
        tag, d, operand_advance(a, kNow * S::kLeftBytes), operand_advance(b, kNow * S::kRightBytes), true);
}
template <class S, class Tag, int Half>
TJ_DEVICE void matrix_multiply(Tag tag, float (&d)[Half], const u32* a, u64 b, bool accumulate) {
  constexpr int kNow = S::kSteps >= 4 ? 4 : 1;
  if constexpr (kNow == 1)
    matrix_multiply<S::kMnMajor>(tag, d, a, b, accumulate);
  else if constexpr (S::kMnMajor == kRightMn)
    wgmma_rs4_1<S::kRightBytes / 16>(tag, d, a, b, accumulate);
  else
    wgmma_rs4_0<S::kRightBytes / 16>(tag, d, a, b, accumulate);
  if constexpr (S::kSteps > kNow)
    matrix_multiply<MatrixSteps<S::kSteps - kNow, 0, S::kRightBytes, S::kMnMajor>>(
        tag, d, a + 4 * kNow, operand_advance(b, kNow * S::kRightBytes), true);
}

}  // namespace tj::dev
