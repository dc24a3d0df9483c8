# Doxygen's filter of the headers. A plain comment in a struct heads the fields below it. In a documentation comment, the
# words before a full stop or a colon at a line's begin ("Accuracy.", "Special values:") are bold, and begin a paragraph.
function close_group() {
  if (in_group) print "  /** \\} */"
  in_group = 0
}
/^typedef struct \w+ \{/ { in_struct = 1 }
/^\}/ { close_group(); in_struct = 0 }
in_struct && /^  \/\* / {
  text = $0
  while (text !~ /\*\/$/ && (getline line) > 0) text = text " " gensub(/^ *\* ?/, "", 1, line)
  text = gensub(/^ *\/\* | ?\*\/$/, "", "g", text)
  close_group()
  match(text, /[.:]( |$)/)
  print "  /** \\name " substr(text, 1, RSTART - 1) "\n   * " substr(text, RSTART + RLENGTH) "\n   * \\{ */"
  in_group = 1
  next
}
/^ \* ~~~|^\/\/\/ ~~~/ { in_code = !in_code }
!in_code && match($0, /^( \*|\/\/\/) ([A-Z][a-z]+( [a-z]+){0,3}[.:])( |$)/, part) {
  $0 = part[1] "\n" part[1] " <b>" part[2] "</b>" substr($0, RLENGTH)
}
{ print }
