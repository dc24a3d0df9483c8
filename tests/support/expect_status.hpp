// Runs tables of changes to a valid call. A rejected call must return the expected status and leave every
// array as it was. An accepted call must write an array.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "rapt/rapt.h"

namespace rapt::test {

struct FunctionName {
  unsigned bit;
  const char *name;
};

// One row of such a table. Each row changes a new `Call`, a type with these members:
//   functions          the FunctionNames that it can call
//   Call(function)     makes a valid call of that function
//   run()              makes the call and returns its status
//   writes_nothing()   returns whether even a valid call writes no array
//   image()            returns the bytes of every array except the workspace
template <class Call>
struct ChangedCall {
  std::string name;
  unsigned functions;  // bits of the FunctionNames to call
  rapt_status expected;
  std::function<void(Call &)> change;
};

template <class Call>
void expect_status(Call &call, rapt_status expected) {
  const bool writes = expected == RAPT_OK && !call.writes_nothing();
  const std::string before = call.image();
  CHECK(call.run() == expected);
  CHECK((call.image() != before) == writes);
}

template <class Call>
void expect_statuses(const std::vector<ChangedCall<Call>> &rows) {
  for (const ChangedCall<Call> &row : rows) {
    for (const FunctionName &function : Call::functions) {
      if (!(row.functions & function.bit)) continue;
      INFO(std::string(function.name)
           << ", " << row.name << ": " << std::string(rapt_status_text(row.expected)));
      Call call(function.bit);
      row.change(call);
      expect_status(call, row.expected);
    }
  }
}

template <class Call, class Change>
void expect_status(const std::string &name, unsigned functions, rapt_status expected, Change &&change) {
  expect_statuses<Call>({{name, functions, expected, std::forward<Change>(change)}});
}

template <class T>
void append_bytes(std::string &bytes, const std::vector<T> &values) {
  if (!values.empty()) bytes.append(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T));
}

}  // namespace rapt::test
