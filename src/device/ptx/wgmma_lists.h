// Operand lists of wgmma, one set for each N: C has no loop over the operands of an asm statement.
//
//   WGMMA_D_n     the accumulator registers in the instruction's text       WGMMA_OUT_n   the same
//                 as asm operands
//   WGMMA_SS_n    what follows for A and B both in shared memory            WGMMA_SS_P_n  the
//                 operand of the predicate
//   WGMMA_RS_n    what follows for A in registers                           WGMMA_RS_P_n  likewise
//
// Each D list is the one before and four registers more. Only wgmma.h includes this.
#ifndef ATTN_PTX_WGMMA_LISTS_H
#define ATTN_PTX_WGMMA_LISTS_H
#define WGMMA_D_8 "%0, %1, %2, %3"
#define WGMMA_OUT_8(d) "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])
#define WGMMA_D_16 WGMMA_D_8 ", %4, %5, %6, %7"
#define WGMMA_OUT_16(d) WGMMA_OUT_8(d), "+f"((d)[4]), "+f"((d)[5]), "+f"((d)[6]), "+f"((d)[7])
#define WGMMA_D_24 WGMMA_D_16 ", %8, %9, %10, %11"
#define WGMMA_OUT_24(d) WGMMA_OUT_16(d), "+f"((d)[8]), "+f"((d)[9]), "+f"((d)[10]), "+f"((d)[11])
#define WGMMA_D_32 WGMMA_D_24 ", %12, %13, %14, %15"
#define WGMMA_OUT_32(d) WGMMA_OUT_24(d), "+f"((d)[12]), "+f"((d)[13]), "+f"((d)[14]), "+f"((d)[15])
#define WGMMA_D_40 WGMMA_D_32 ", %16, %17, %18, %19"
#define WGMMA_OUT_40(d) WGMMA_OUT_32(d), "+f"((d)[16]), "+f"((d)[17]), "+f"((d)[18]), "+f"((d)[19])
#define WGMMA_D_48 WGMMA_D_40 ", %20, %21, %22, %23"
#define WGMMA_OUT_48(d) WGMMA_OUT_40(d), "+f"((d)[20]), "+f"((d)[21]), "+f"((d)[22]), "+f"((d)[23])
#define WGMMA_D_56 WGMMA_D_48 ", %24, %25, %26, %27"
#define WGMMA_OUT_56(d) WGMMA_OUT_48(d), "+f"((d)[24]), "+f"((d)[25]), "+f"((d)[26]), "+f"((d)[27])
#define WGMMA_D_64 WGMMA_D_56 ", %28, %29, %30, %31"
#define WGMMA_OUT_64(d) WGMMA_OUT_56(d), "+f"((d)[28]), "+f"((d)[29]), "+f"((d)[30]), "+f"((d)[31])
#define WGMMA_D_72 WGMMA_D_64 ", %32, %33, %34, %35"
#define WGMMA_OUT_72(d) WGMMA_OUT_64(d), "+f"((d)[32]), "+f"((d)[33]), "+f"((d)[34]), "+f"((d)[35])
#define WGMMA_D_80 WGMMA_D_72 ", %36, %37, %38, %39"
#define WGMMA_OUT_80(d) WGMMA_OUT_72(d), "+f"((d)[36]), "+f"((d)[37]), "+f"((d)[38]), "+f"((d)[39])
#define WGMMA_D_88 WGMMA_D_80 ", %40, %41, %42, %43"
#define WGMMA_OUT_88(d) WGMMA_OUT_80(d), "+f"((d)[40]), "+f"((d)[41]), "+f"((d)[42]), "+f"((d)[43])
#define WGMMA_D_96 WGMMA_D_88 ", %44, %45, %46, %47"
#define WGMMA_OUT_96(d) WGMMA_OUT_88(d), "+f"((d)[44]), "+f"((d)[45]), "+f"((d)[46]), "+f"((d)[47])
#define WGMMA_D_104 WGMMA_D_96 ", %48, %49, %50, %51"
#define WGMMA_OUT_104(d) WGMMA_OUT_96(d), "+f"((d)[48]), "+f"((d)[49]), "+f"((d)[50]), "+f"((d)[51])
#define WGMMA_D_112 WGMMA_D_104 ", %52, %53, %54, %55"
#define WGMMA_OUT_112(d)                                                                           \
    WGMMA_OUT_104(d), "+f"((d)[52]), "+f"((d)[53]), "+f"((d)[54]), "+f"((d)[55])
#define WGMMA_D_120 WGMMA_D_112 ", %56, %57, %58, %59"
#define WGMMA_OUT_120(d)                                                                           \
    WGMMA_OUT_112(d), "+f"((d)[56]), "+f"((d)[57]), "+f"((d)[58]), "+f"((d)[59])
#define WGMMA_D_128 WGMMA_D_120 ", %60, %61, %62, %63"
#define WGMMA_OUT_128(d)                                                                           \
    WGMMA_OUT_120(d), "+f"((d)[60]), "+f"((d)[61]), "+f"((d)[62]), "+f"((d)[63])
#define WGMMA_D_136 WGMMA_D_128 ", %64, %65, %66, %67"
#define WGMMA_OUT_136(d)                                                                           \
    WGMMA_OUT_128(d), "+f"((d)[64]), "+f"((d)[65]), "+f"((d)[66]), "+f"((d)[67])
#define WGMMA_D_144 WGMMA_D_136 ", %68, %69, %70, %71"
#define WGMMA_OUT_144(d)                                                                           \
    WGMMA_OUT_136(d), "+f"((d)[68]), "+f"((d)[69]), "+f"((d)[70]), "+f"((d)[71])
#define WGMMA_D_152 WGMMA_D_144 ", %72, %73, %74, %75"
#define WGMMA_OUT_152(d)                                                                           \
    WGMMA_OUT_144(d), "+f"((d)[72]), "+f"((d)[73]), "+f"((d)[74]), "+f"((d)[75])
#define WGMMA_D_160 WGMMA_D_152 ", %76, %77, %78, %79"
#define WGMMA_OUT_160(d)                                                                           \
    WGMMA_OUT_152(d), "+f"((d)[76]), "+f"((d)[77]), "+f"((d)[78]), "+f"((d)[79])
#define WGMMA_D_168 WGMMA_D_160 ", %80, %81, %82, %83"
#define WGMMA_OUT_168(d)                                                                           \
    WGMMA_OUT_160(d), "+f"((d)[80]), "+f"((d)[81]), "+f"((d)[82]), "+f"((d)[83])
#define WGMMA_D_176 WGMMA_D_168 ", %84, %85, %86, %87"
#define WGMMA_OUT_176(d)                                                                           \
    WGMMA_OUT_168(d), "+f"((d)[84]), "+f"((d)[85]), "+f"((d)[86]), "+f"((d)[87])
#define WGMMA_D_184 WGMMA_D_176 ", %88, %89, %90, %91"
#define WGMMA_OUT_184(d)                                                                           \
    WGMMA_OUT_176(d), "+f"((d)[88]), "+f"((d)[89]), "+f"((d)[90]), "+f"((d)[91])
#define WGMMA_D_192 WGMMA_D_184 ", %92, %93, %94, %95"
#define WGMMA_OUT_192(d)                                                                           \
    WGMMA_OUT_184(d), "+f"((d)[92]), "+f"((d)[93]), "+f"((d)[94]), "+f"((d)[95])
#define WGMMA_D_200 WGMMA_D_192 ", %96, %97, %98, %99"
#define WGMMA_OUT_200(d)                                                                           \
    WGMMA_OUT_192(d), "+f"((d)[96]), "+f"((d)[97]), "+f"((d)[98]), "+f"((d)[99])
#define WGMMA_D_208 WGMMA_D_200 ", %100, %101, %102, %103"
#define WGMMA_OUT_208(d)                                                                           \
    WGMMA_OUT_200(d), "+f"((d)[100]), "+f"((d)[101]), "+f"((d)[102]), "+f"((d)[103])
#define WGMMA_D_216 WGMMA_D_208 ", %104, %105, %106, %107"
#define WGMMA_OUT_216(d)                                                                           \
    WGMMA_OUT_208(d), "+f"((d)[104]), "+f"((d)[105]), "+f"((d)[106]), "+f"((d)[107])
#define WGMMA_D_224 WGMMA_D_216 ", %108, %109, %110, %111"
#define WGMMA_OUT_224(d)                                                                           \
    WGMMA_OUT_216(d), "+f"((d)[108]), "+f"((d)[109]), "+f"((d)[110]), "+f"((d)[111])
#define WGMMA_D_232 WGMMA_D_224 ", %112, %113, %114, %115"
#define WGMMA_OUT_232(d)                                                                           \
    WGMMA_OUT_224(d), "+f"((d)[112]), "+f"((d)[113]), "+f"((d)[114]), "+f"((d)[115])
#define WGMMA_D_240 WGMMA_D_232 ", %116, %117, %118, %119"
#define WGMMA_OUT_240(d)                                                                           \
    WGMMA_OUT_232(d), "+f"((d)[116]), "+f"((d)[117]), "+f"((d)[118]), "+f"((d)[119])
#define WGMMA_D_248 WGMMA_D_240 ", %120, %121, %122, %123"
#define WGMMA_OUT_248(d)                                                                           \
    WGMMA_OUT_240(d), "+f"((d)[120]), "+f"((d)[121]), "+f"((d)[122]), "+f"((d)[123])
#define WGMMA_D_256 WGMMA_D_248 ", %124, %125, %126, %127"
#define WGMMA_OUT_256(d)                                                                           \
    WGMMA_OUT_248(d), "+f"((d)[124]), "+f"((d)[125]), "+f"((d)[126]), "+f"((d)[127])

#define WGMMA_SS_8 "%4, %5, p, 1, 1"
#define WGMMA_SS_P_8 "%6"
#define WGMMA_RS_8 "{%4, %5, %6, %7}, %8, p, 1, 1"
#define WGMMA_RS_P_8 "%9"
#define WGMMA_SS_16 "%8, %9, p, 1, 1"
#define WGMMA_SS_P_16 "%10"
#define WGMMA_RS_16 "{%8, %9, %10, %11}, %12, p, 1, 1"
#define WGMMA_RS_P_16 "%13"
#define WGMMA_SS_24 "%12, %13, p, 1, 1"
#define WGMMA_SS_P_24 "%14"
#define WGMMA_RS_24 "{%12, %13, %14, %15}, %16, p, 1, 1"
#define WGMMA_RS_P_24 "%17"
#define WGMMA_SS_32 "%16, %17, p, 1, 1"
#define WGMMA_SS_P_32 "%18"
#define WGMMA_RS_32 "{%16, %17, %18, %19}, %20, p, 1, 1"
#define WGMMA_RS_P_32 "%21"
#define WGMMA_SS_40 "%20, %21, p, 1, 1"
#define WGMMA_SS_P_40 "%22"
#define WGMMA_RS_40 "{%20, %21, %22, %23}, %24, p, 1, 1"
#define WGMMA_RS_P_40 "%25"
#define WGMMA_SS_48 "%24, %25, p, 1, 1"
#define WGMMA_SS_P_48 "%26"
#define WGMMA_RS_48 "{%24, %25, %26, %27}, %28, p, 1, 1"
#define WGMMA_RS_P_48 "%29"
#define WGMMA_SS_56 "%28, %29, p, 1, 1"
#define WGMMA_SS_P_56 "%30"
#define WGMMA_RS_56 "{%28, %29, %30, %31}, %32, p, 1, 1"
#define WGMMA_RS_P_56 "%33"
#define WGMMA_SS_64 "%32, %33, p, 1, 1"
#define WGMMA_SS_P_64 "%34"
#define WGMMA_RS_64 "{%32, %33, %34, %35}, %36, p, 1, 1"
#define WGMMA_RS_P_64 "%37"
#define WGMMA_SS_72 "%36, %37, p, 1, 1"
#define WGMMA_SS_P_72 "%38"
#define WGMMA_RS_72 "{%36, %37, %38, %39}, %40, p, 1, 1"
#define WGMMA_RS_P_72 "%41"
#define WGMMA_SS_80 "%40, %41, p, 1, 1"
#define WGMMA_SS_P_80 "%42"
#define WGMMA_RS_80 "{%40, %41, %42, %43}, %44, p, 1, 1"
#define WGMMA_RS_P_80 "%45"
#define WGMMA_SS_88 "%44, %45, p, 1, 1"
#define WGMMA_SS_P_88 "%46"
#define WGMMA_RS_88 "{%44, %45, %46, %47}, %48, p, 1, 1"
#define WGMMA_RS_P_88 "%49"
#define WGMMA_SS_96 "%48, %49, p, 1, 1"
#define WGMMA_SS_P_96 "%50"
#define WGMMA_RS_96 "{%48, %49, %50, %51}, %52, p, 1, 1"
#define WGMMA_RS_P_96 "%53"
#define WGMMA_SS_104 "%52, %53, p, 1, 1"
#define WGMMA_SS_P_104 "%54"
#define WGMMA_RS_104 "{%52, %53, %54, %55}, %56, p, 1, 1"
#define WGMMA_RS_P_104 "%57"
#define WGMMA_SS_112 "%56, %57, p, 1, 1"
#define WGMMA_SS_P_112 "%58"
#define WGMMA_RS_112 "{%56, %57, %58, %59}, %60, p, 1, 1"
#define WGMMA_RS_P_112 "%61"
#define WGMMA_SS_120 "%60, %61, p, 1, 1"
#define WGMMA_SS_P_120 "%62"
#define WGMMA_RS_120 "{%60, %61, %62, %63}, %64, p, 1, 1"
#define WGMMA_RS_P_120 "%65"
#define WGMMA_SS_128 "%64, %65, p, 1, 1"
#define WGMMA_SS_P_128 "%66"
#define WGMMA_RS_128 "{%64, %65, %66, %67}, %68, p, 1, 1"
#define WGMMA_RS_P_128 "%69"
#define WGMMA_SS_136 "%68, %69, p, 1, 1"
#define WGMMA_SS_P_136 "%70"
#define WGMMA_RS_136 "{%68, %69, %70, %71}, %72, p, 1, 1"
#define WGMMA_RS_P_136 "%73"
#define WGMMA_SS_144 "%72, %73, p, 1, 1"
#define WGMMA_SS_P_144 "%74"
#define WGMMA_RS_144 "{%72, %73, %74, %75}, %76, p, 1, 1"
#define WGMMA_RS_P_144 "%77"
#define WGMMA_SS_152 "%76, %77, p, 1, 1"
#define WGMMA_SS_P_152 "%78"
#define WGMMA_RS_152 "{%76, %77, %78, %79}, %80, p, 1, 1"
#define WGMMA_RS_P_152 "%81"
#define WGMMA_SS_160 "%80, %81, p, 1, 1"
#define WGMMA_SS_P_160 "%82"
#define WGMMA_RS_160 "{%80, %81, %82, %83}, %84, p, 1, 1"
#define WGMMA_RS_P_160 "%85"
#define WGMMA_SS_168 "%84, %85, p, 1, 1"
#define WGMMA_SS_P_168 "%86"
#define WGMMA_RS_168 "{%84, %85, %86, %87}, %88, p, 1, 1"
#define WGMMA_RS_P_168 "%89"
#define WGMMA_SS_176 "%88, %89, p, 1, 1"
#define WGMMA_SS_P_176 "%90"
#define WGMMA_RS_176 "{%88, %89, %90, %91}, %92, p, 1, 1"
#define WGMMA_RS_P_176 "%93"
#define WGMMA_SS_184 "%92, %93, p, 1, 1"
#define WGMMA_SS_P_184 "%94"
#define WGMMA_RS_184 "{%92, %93, %94, %95}, %96, p, 1, 1"
#define WGMMA_RS_P_184 "%97"
#define WGMMA_SS_192 "%96, %97, p, 1, 1"
#define WGMMA_SS_P_192 "%98"
#define WGMMA_RS_192 "{%96, %97, %98, %99}, %100, p, 1, 1"
#define WGMMA_RS_P_192 "%101"
#define WGMMA_SS_200 "%100, %101, p, 1, 1"
#define WGMMA_SS_P_200 "%102"
#define WGMMA_RS_200 "{%100, %101, %102, %103}, %104, p, 1, 1"
#define WGMMA_RS_P_200 "%105"
#define WGMMA_SS_208 "%104, %105, p, 1, 1"
#define WGMMA_SS_P_208 "%106"
#define WGMMA_RS_208 "{%104, %105, %106, %107}, %108, p, 1, 1"
#define WGMMA_RS_P_208 "%109"
#define WGMMA_SS_216 "%108, %109, p, 1, 1"
#define WGMMA_SS_P_216 "%110"
#define WGMMA_RS_216 "{%108, %109, %110, %111}, %112, p, 1, 1"
#define WGMMA_RS_P_216 "%113"
#define WGMMA_SS_224 "%112, %113, p, 1, 1"
#define WGMMA_SS_P_224 "%114"
#define WGMMA_RS_224 "{%112, %113, %114, %115}, %116, p, 1, 1"
#define WGMMA_RS_P_224 "%117"
#define WGMMA_SS_232 "%116, %117, p, 1, 1"
#define WGMMA_SS_P_232 "%118"
#define WGMMA_RS_232 "{%116, %117, %118, %119}, %120, p, 1, 1"
#define WGMMA_RS_P_232 "%121"
#define WGMMA_SS_240 "%120, %121, p, 1, 1"
#define WGMMA_SS_P_240 "%122"
#define WGMMA_RS_240 "{%120, %121, %122, %123}, %124, p, 1, 1"
#define WGMMA_RS_P_240 "%125"
#define WGMMA_SS_248 "%124, %125, p, 1, 1"
#define WGMMA_SS_P_248 "%126"
#define WGMMA_RS_248 "{%124, %125, %126, %127}, %128, p, 1, 1"
#define WGMMA_RS_P_248 "%129"
#define WGMMA_SS_256 "%128, %129, p, 1, 1"
#define WGMMA_SS_P_256 "%130"
#define WGMMA_RS_256 "{%128, %129, %130, %131}, %132, p, 1, 1"
#define WGMMA_RS_P_256 "%133"

#endif
