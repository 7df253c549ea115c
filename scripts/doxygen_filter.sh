#!/bin/sh
# Shows plain // comments to Doxygen as documentation: a whole line belongs to what follows, a comment behind code to what
# stands before it. Indented formulas and tables become code blocks. A ruler line and the title below it are left out,
# since they belong to no declaration.
awk '
    FNR == 1 { print "/// \\file" }
    /^\/\/ -+$/ { ruler = 1; print ""; next }
    ruler && /^\/\// { ruler = 0; chart = 0; print ""; next }
    { ruler = 0 }
    /^[ \t]*\/\/( |$)/ {
        text = $0
        sub(/^[ \t]*\/\/ ?/, "", text)
        if (text ~ /^ *- /) { list = 1; chart = 0 }
        else if (text !~ /^ /) { list = 0; if (chart) print "///"; chart = 0 }
        else if (!list && !chart) { print "///"; chart = 1 }
        print "/// " (chart ? "    " : "") text
        next
    }
    { chart = 0; list = 0 }
    /[;,({] *\/\/ / { sub(/\/\/ /, "///< ") }
    { print }' "$1"
