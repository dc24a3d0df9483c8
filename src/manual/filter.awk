# Doxygen's input filter for the headers, whose comments are plain C: a comment becomes documentation of what follows it, a line
# of dashes a group, and an indented part keeps its columns.
function close_table() { if (in_table) print "@endverbatim"; in_table = 0 }
# A part of a comment: its text without the stars. Indented lines below an item of a list belong to it.
function put(text) {
  in_list = text ~ /^ *[-*] / || in_list && text ~ /^  /
  if (text ~ /^  / && !in_list) {
    if (!in_table) print "@verbatim"
    in_table = 1
  } else {
    close_table()
    gsub(/ \. /, " \\&middot; ", text)  # a product: a dot before a space would end the brief description
  }
  print text
}
# "/* ---- title ---- */" and "// ---- title"
/^(\/\*|\/\/) ---- / {
  title = $0
  gsub(/^(\/\*|\/\/) ---- *| *-+ *\*\/$|:.*/, "", title)
  name = FILENAME " " title
  gsub(/.*\/|[^a-z ]/, "", name)
  gsub(/ /, "_", name)
  if (in_group) print "/** @} */"
  print "/** @defgroup " name " " title "\n@{ */"
  in_group = 1
  next
}
/^\/\* .*\*\/$/ { sub(/^\/\* /, "/** "); print; after_comment = 1; next }
/^\/\* / && !seen_header { seen_header = 1; print "/** @file"; sub(/^\/\* /, ""); print; in_comment = 1; next }
/^\/\* / { print "/**"; sub(/^\/\* /, ""); put($0); in_comment = 1; next }
in_comment && /\*\/$/ {
  sub(/ *\*\/$/, "")
  sub(/^ \* ?/, "")
  put($0)
  close_table()
  print "*/"
  in_comment = 0
  after_comment = 1
  next
}
in_comment { sub(/^ \* ?/, ""); put($0); next }
# A comment behind a field or an enumerator.
/[;,] +\/\* .*\*\/$/ { sub(/\/\* /, "/**< ") }
/[A-Z0-9] +\/\* .*\*\/$/ { sub(/\/\* /, "/**< ") }
# A function without a comment is the function before it for another type.
/^RAPT_API / {
  match($0, /rapt_[a-z0-9_]+\(/)
  if (RLENGTH > 0) {
    name = substr($0, RSTART, RLENGTH - 1)
    if (after_comment) documented = name
    else print "/** As @ref " documented "(). */"
  }
}
{ print; after_comment = 0 }
END { if (in_group) print "/** @} */" }
