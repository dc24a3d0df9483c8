# Prints code block number `block` of a text. A block of README.md lies between ```LANGUAGE and ```; a block of a
# header is a run of lines that begin with "///   ". Fails if there is no such block, so that a removed example is noticed.
#   awk -v block=2 -v language=c -f extract.awk README.md
BEGIN { fence = "^```" language "$" }
language != "" && !inside && $0 ~ fence { inside = 1; found += 1; next }
language != "" && inside && /^```$/ { inside = 0 }
language != "" && inside && found == block { print }
language == "" && /^\/\/\/   / {
  if (!inside) found += 1
  inside = 1
  if (found == block) print substr($0, 7)
  next
}
language == "" { inside = 0 }
END { if (found < block) exit 1 }
