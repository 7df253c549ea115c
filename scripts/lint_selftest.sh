#!/usr/bin/env bash
# Plants one fault of every kind that scripts/lint.sh looks for and fails when one is not found, or when a clean tree is
# called faulty: a check that cannot fail is none.
set -euo pipefail
lint=$(cd "$(dirname "$0")" && pwd)/lint.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
status=0

clean_tree() {
    rm -rf "$folder/tree"
    mkdir -p "$folder/tree"/{include,src/core,src/cpu/reference,src/cuda,src/shared,src/device,tools,bench,tests,scripts}
    cd "$folder/tree"
    echo '// attn.h: the API.' >include/attn.h
    printf '// plan.c: plans.\n#include "plan.h"\n\n#include <attn.h>\n#include <stdlib.h>\n' >src/core/plan.c
    echo '// plan.h: plans.' >src/core/plan.h
    printf '// mask.h: masks.\n#include <stdint.h>\n' >src/shared/mask.h
    printf '// cpu.c: kernels.\n#include "../core/plan.h"\n' >src/cpu/cpu.c
    echo '// cpu.h: kernels.' >src/cpu/cpu.h
    printf '// oracle.c: the formula.\n#include "../../core/plan.h"\n' >src/cpu/reference/oracle.c
    echo '// oracle.h: the formula.' >src/cpu/reference/oracle.h
    echo '// load.h: device loads.' >src/device/load.h
    echo '// main.c: the command.' >tools/main.c
    printf '#!/bin/sh\n' >scripts/run.sh
    chmod +x scripts/run.sh
    [ ! -f "$(dirname "$lint")/../.clang-format" ] || cp "$(dirname "$lint")/../.clang-format" .
}

# Arguments: file, text added to it, words that the lint must say.
expect() {
    clean_tree
    printf '%b' "$2" >>"$1"
    local said
    if said=$("$lint" "$folder/tree" 2>&1); then
        echo "lint_selftest: not found in $1: $2" >&2
        status=1
    elif [[ "$said" != *"$3"* ]]; then
        echo "lint_selftest: in $1: $2: expected '$3', got: $said" >&2
        status=1
    fi
}

clean_tree
if ! said=$("$lint" "$folder/tree" 2>&1); then
    echo "lint_selftest: faults in a clean tree: $said" >&2
    status=1
fi

marks="TO""DO"
expect src/core/plan.c '#include "cpu.h"\n' "core may not include cpu"
expect src/core/plan.c '#include "load.h"\n' "core may not include device"
expect src/cpu/reference/oracle.c '#include "../cpu.h"\n' "it shares no code with the kernels"
expect src/cpu/cpu.c '#include "reference/oracle.h"\n' "cpu may not include reference"
expect src/core/plan.c '#include "gone.h"\n' "is not in the tree"
expect src/shared/mask.h '#include <math.h>\n' "shared may not include <math.h>"
expect src/shared/mask.h '#include "plan.h"\n' "shared may not include core"
expect src/device/load.h '#include <stdint.h>\n' "device may not include <stdint.h>"
expect src/device/load.h 'PTX void ld_new(void) PTX_BODY(asm("ld.new;"););\n' "nothing assembles it"
expect tools/main.c '#include "../src/core/plan.h"\n' "tools may not include core"
expect src/core/plan.c '#include <cuda.h>\n' "no header of a GPU toolkit"
expect tests/plan.c '// plan.c: tests of plans.\n' "the name is taken by"
expect src/cpu/other.c 'int x;\n' "does not open with"
expect src/core/plan.c 'int x; \n' "space at the end"
expect src/core/plan.c 'int x;\r\n' "carriage return"
expect src/core/plan.c '\tint x;\n' "tab"
expect src/core/plan.c "// $marks: later\n" "a leftover mark"
expect src/core/plan.c '#if 0\n#endif\n' "dead code"
expect src/core/plan.c '// return x + 1;\n' "code in a comment"
expect src/core/plan.c "// $(printf 'x%.0s' {1..130})\n" "columns"
expect src/core/plan.c 'static_cast<int>(1)\n' "C++"
expect src/core/plan.c 'void f(void)\n{\n    printf("x");\n}\n' "never prints"
expect src/core/plan.c "$(printf 'int x;\\n%.0s' {1..801})" "more than 800 lines"
expect include/attn.h "$(printf '//\\n%.0s' {1..601})" "more than 600 lines"
expect src/core/plan.c 'int x;' "no newline at the end"
expect scripts/run.sh '# see /ho''me/me/x\n' "somebody's machine"
expect scripts/run.sh 'if then\n' "syntax error"
expect scripts/new.sh '#!/bin/sh\n' "not executable"
case "$(clang-format --version 2>/dev/null || true)" in
*"version 14."*) expect src/core/plan.c 'int   x;\n' "layout" ;;
esac

[ "$status" -ne 0 ] || echo "lint_selftest: every kind of fault is found"
exit "$status"
