#!/usr/bin/env bash
# Checks what compilers do not: scripts/lint.sh [FOLDER]. Prints file:line: reason for each fault; exit status 1 if any.
#
# The rules are those of docs/ and CONTRIBUTING.md: which layer may include which, unique file names, a first line that
# says what a file is, C only, sizes, no leftovers, and the layout that .clang-format decides. scripts/lint_selftest.sh
# plants one fault of each kind and sees it found: a new rule gets a line there.
set -euo pipefail
export LC_ALL=C
cd "${1:-$(dirname "$0")/..}"

faults=$(mktemp)
trap 'rm -f "$faults"' EXIT
fault() { echo "$*" >>"$faults"; }

# The files that are, or would be, in the repository.
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    mapfile -t files < <(git ls-files --cached --others --exclude-standard | sort)
else
    mapfile -t files < <(find . -type f -not -path './build*' -not -path './.git/*' | sed 's|^\./||' | sort)
fi
existing=()
c_files=()
text_files=()
for file in "${files[@]}"; do
    [ -f "$file" ] || continue
    existing+=("$file")
    case "$file" in
    *.c | *.h | *.cu) c_files+=("$file") && text_files+=("$file") ;;
    *.sh | *.py | *.md | *.txt | *.cmake | *.in | *.map | Makefile | .ci/run) text_files+=("$file") ;;
    esac
done
[ "${#c_files[@]}" -gt 0 ] || { echo "lint: no C file below $PWD" >&2; exit 1; }

# One name, one file: an include, a log line and a profile name a file without its folder. Sources only; data sets have
# their own names.
printf '%s\n' "${existing[@]}" | grep -E '\.(c|h|cu|sh|py)$' |
    awk -F/ '$NF != "__init__.py" { if ($NF in seen) print $0 ":1: the name is taken by " seen[$NF]; else seen[$NF] = $0 }' \
        >>"$faults"

# Who may include whom. A file belongs to the layer of its folder; an include is resolved by its (unique) name.
awk '
    function layer(path) {
        if (path ~ /^include\//) return "api"
        if (path ~ /^examples\/ladder\//) return "ladder"
        if (path ~ /^src\/cpu\/reference\//) return "reference"
        if (path ~ /^src\//) { split(path, part, "/"); return part[2] }
        split(path, part, "/"); return part[1]
    }
    BEGIN {
        allow["core"] = "api core shared"
        allow["shared"] = "shared"
        allow["cpu"] = "api core cpu shared"
        allow["reference"] = "api core cpu reference shared"
        allow["cuda"] = "api core cuda shared"
        allow["device"] = "device shared"
        allow["dist"] = "api core dist shared"
        allow["emu"] = "emu device shared"
        allow["tools"] = "api tools"
        allow["bench"] = "api bench"
        allow["examples"] = "api examples"
        allow["ladder"] = "device ladder shared"
        allow["python"] = "api python"
        allow["api"] = ""
        for (i = 1; i < ARGC; i++) { name = ARGV[i]; sub(/.*\//, "", name); home[name] = layer(ARGV[i]) }
    }
    /^[ \t]*#[ \t]*include/ {
        mine = layer(FILENAME)
        if (!(mine in allow)) next
        name = $0
        sub(/^[^"<]*["<]/, "", name); sub(/[">].*/, "", name)
        base = name; sub(/.*\//, "", base)
        if ($0 ~ /"/ && !(base in home)) { print FILENAME ":" FNR ": \"" name "\" is not in the tree"; next }
        if (base in home) {
            if (index(" " allow[mine] " ", " " home[base] " ") == 0)
                print FILENAME ":" FNR ": " mine " may not include " home[base] " (" name ")"
            # What kernels are checked against is not made of them: merge and append alone are of all host backends.
            else if (mine == "reference" && home[base] == "cpu" && base !~ /^(merge|append)\.h$/)
                print FILENAME ":" FNR ": reference may not include " base ": it shares no code with the kernels"
        } else if (mine == "device" || (mine == "shared" && name !~ /^(stdint|stddef|stdbool)\.h$/)) {
            print FILENAME ":" FNR ": " mine " may not include <" name ">"
        } else if (name ~ /^(cuda|nvrtc|cute|cutlass|cooperative_groups|iostream|vector|string$)/) {
            print FILENAME ":" FNR ": no header of a GPU toolkit or of C++ (<" name ">)"
        }
    }' "${c_files[@]}" >>"$faults"

# Text: what every file, and what every C file must be like.
awk '
    FNR == 1 { name = FILENAME; sub(/.*\//, "", name); c = name ~ /\.(c|h|cu)$/; markdown = name ~ /\.md$/ }
    FNR == 1 && c && (length($0) < 12 || !/^\/\/ [^ ]/) { print FILENAME ":1: does not open with a // line that says what it is" }
    /\r$/ { print FILENAME ":" FNR ": carriage return" }
    /[ \t]$/ && !markdown { print FILENAME ":" FNR ": space at the end of the line" }
    /(^|[^A-Za-z_])(TO[D]O|FIX[M]E|X[X]X|HAC[K])([^A-Za-z_]|$)/ { print FILENAME ":" FNR ": a leftover mark; finish it or file it" }
    /^(<<<<<<<|>>>>>>>|=======$)/ { print FILENAME ":" FNR ": conflict marker" }
    /(^|[^A-Za-z0-9_.\/}])\/(home|root|Users|work|farm)\// { print FILENAME ":" FNR ": a path of somebody'\''s machine" }
    c && /^[ \t]*#[ \t]*if[ \t]+0/ { print FILENAME ":" FNR ": dead code behind #if 0" }
    c && /^[ \t]*\/\/.*(;|\{|\})[ \t]*$/ && /^[ \t]*\/\/[ \t]*(if|for|while|return|int|float|double|size_t|u?int[0-9]+_t|const|static|struct|#)[ (]/ && !/^[ \t]*\/\/     / { print FILENAME ":" FNR ": code in a comment" }
    c && /\t/ { print FILENAME ":" FNR ": tab" }
    c && length($0) > 100 { print FILENAME ":" FNR ": " length($0) " columns" }
    c && /(^|[^A-Za-z_])(std::|static_cast<|reinterpret_cast<|constexpr |template *<|namespace [a-z]+ *\{)/ { print FILENAME ":" FNR ": C++" }
    FILENAME ~ /^src\/.*\.c$/ && /(^|[^A-Za-z0-9_])(printf|puts|putchar|exit|abort|perror) *\(/ && !/^[ \t]*\/\// { print FILENAME ":" FNR ": the library never prints or ends the process" }
    { lines[FILENAME] = FNR }
    END {
        for (file in lines) {
            if (file ~ /^(src|tools|emu|bench)\/.*\.(c|h|cu)$/ && lines[file] > 800) print file ":" lines[file] ": more than 800 lines"
            if (file == "include/attn.h" && lines[file] > 600) print file ":" lines[file] ": more than 600 lines"
        }
    }' "${text_files[@]}" >>"$faults"

# Every instruction is assembled by the gate: a wrapper is called in tests/emu/every_*.c, or by another one.
mapfile -t device_files < <(printf '%s\n' "${c_files[@]}" | grep -E '^(src/device/|tests/emu/every_)' || true)
[ "${#device_files[@]}" -eq 0 ] || awk '
    { sub(/\/\/.*/, "") }
    /^PTX / && match($0, /[a-z0-9_]+\(/) { name = substr($0, RSTART, RLENGTH - 1); where[name] = FILENAME ":" FNR }
    { while (match($0, /[a-z0-9_]+/)) { uses[substr($0, RSTART, RLENGTH)]++; $0 = substr($0, RSTART + RLENGTH) } }
    END { for (name in where) if (uses[name] < 2) print where[name] ": " name " is in no tests/emu/every_*.c: nothing assembles it" }
' "${device_files[@]}" >>"$faults"

for file in "${text_files[@]}"; do
    [ ! -s "$file" ] || [ -z "$(tail -c 1 "$file")" ] || fault "$file:1: no newline at the end of the file"
done
for file in "${existing[@]}"; do
    case "$file" in
    *.sh | .ci/run)
        [ -x "$file" ] || fault "$file:1: not executable"
        bash -n "$file" 2>>"$faults" || true
        ;;
    esac
done

# Version 14 is the reference: other versions lay out some lines differently, and nobody should need to install one.
layout="not checked: clang-format 14 is not installed"
for formatter in clang-format-14 clang-format; do
    case "$("$formatter" --version 2>/dev/null || true)" in
    *"version 14."*)
        layout="checked"
        "$formatter" --dry-run "${c_files[@]}" 2>&1 | sed -n 's/^\(.*:[0-9]*\):[0-9]*: warning: .*/\1: layout (clang-format -i)/p' >>"$faults"
        break
        ;;
    esac
done

sort -u "$faults"
count=$(sort -u "$faults" | wc -l)
echo "lint: ${#existing[@]} files, ${#c_files[@]} of them C; layout $layout; $count faults"
[ "$count" -eq 0 ]
