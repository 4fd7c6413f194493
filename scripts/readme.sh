#!/bin/sh
# Print a document with the output of its commands made anew: each fenced block whose first line is
# "$ build/kvtwin ..." shows what that line prints. Blocks fenced as console are left as they are
# (they depend on the machine, or on data that is not shipped).
#
#   readme.sh README.md
set -eu
awk '
    /^```$/ && !inside {
        print
        if ((getline line) <= 0) exit
        print line
        if (line ~ /^\$ build\/kvtwin /) {
            command = "(" substr(line, 3) ") 2>/dev/null"
            while ((command | getline out) > 0) print out
            close(command)
            while ((getline line) > 0 && line != "```") { }
            print "```"
        } else
            inside = line != "```"
        next
    }
    /^```/ { inside = !inside }
    { print }
' "$1"
