# Makes the page of the numeric contract from the headers in src/contract: comments at the margin become text, all else code.
BEGIN {
  print "# The numeric contract\n"
  print "Compiled code never fuses or reorders operations by itself. The headers in src/contract state what every level and the"
  print "scalar reference compute; this page is their text. MXCSR and FPCR are set on entry and restored: results round to nearest."
}
function close_code() {
  if (in_code) print "```"
  in_code = 0
}
FNR == 1 {
  close_code()
  name = FILENAME
  gsub(/.*\/|\.hpp$/, "", name)
  gsub(/_/, " ", name)
  print "\n## " toupper(substr(name, 1, 1)) substr(name, 2) "\n"
}
/^(#|namespace|}  \/\/ namespace|$)/ && !in_code { if (/^$/) print ""; next }
/^\/\/   / { if (!in_code) print "\n```"; in_code = 1; print substr($0, 4); next }
/^\/\// { close_code(); print substr($0, 4); next }
/^(#|namespace|}  \/\/ namespace)/ { next }
{ if (!in_code) print "\n```cpp"; in_code = 1; print }
END { close_code() }
