"""Planted violations that tools/check_style.py must find, and clean code that it must accept."""
# Covers tools/check_style.py, tools/arrows.py, tools/test_places.py, tools/prose.py, tools/literals.py.
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools"))
import arrows  # noqa: E402
import check_style  # noqa: E402
import literals  # noqa: E402


def violations_of(files):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        return check_style.check(root)[0]


def function_of(lines):
    return "namespace a {\nint f(int x) {\n" + "  x += 1;\n" * (lines - 2) + "}\n}  // namespace a\n"


class Arrows(unittest.TestCase):
    def test_forbidden_arrow(self):
        found = violations_of({"src/collectives/ring.h": '#include "transport/shm/shm.h"\n'})
        self.assertEqual(found, ["src/collectives/ring.h: collectives must not include transport/shm/shm.h"])

    def test_allowed_arrows(self):
        self.assertEqual(violations_of({
            "src/executor/run.cc": '#include "core/status.h"\n#include "kernels/kernels.h"\n#include "executor/run.h"\n',
            "src/comm/api.cc": "#include <tutti/tutti.h>\n#include <vector>\n",
            "tests/comm/api_test.cc": '// Covers comm/api.cc.\n#include "transport/shm/shm.h"\n'}), [])

    def test_core_must_not_know_the_public_header(self):
        self.assertEqual(len(violations_of({"src/core/a.h": "#include <tutti/tutti.h>\n"})), 1)

    def test_programs_use_the_c_api_alone(self):
        self.assertEqual(len(violations_of({"tools/perf/main.cc": '#include "core/units.h"\n'})), 1)
        self.assertEqual(len(violations_of({"examples/sum.c": '#include "../src/core/units.h"\n'})), 1)

    def test_unknown_folder(self):
        self.assertEqual(len(violations_of({"src/utils/a.h": "int x;\n"})), 1)
        self.assertEqual(len(violations_of({"src/comm/misc/a.h": "int x;\n"})), 1)

    def test_folders_of_a_room_are_told_apart(self):
        self.assertEqual(violations_of({"src/comm/join/a.h": '#include "comm/membership/b.h"\n'}), [])
        found = violations_of({"src/comm/membership/a.h": '#include "comm/join/b.h"\n'})
        self.assertEqual(found, ["src/comm/membership/a.h: comm/membership must not include comm/join/b.h"])

    def test_a_name_that_comes_through_another_header(self):
        files = {"src/schedule/step.h": "struct Step {\n};\n", "src/kernels/a.cc": "void f(const Step& step);\n"}
        self.assertEqual(violations_of(files), ["src/kernels/a.cc: kernels must not use Step of schedule"])
        files["src/kernels/b.h"] = "class B {\n  struct Step {};\n};\n"  # the same word means something else here
        self.assertEqual(violations_of(files), [])
        files = {"src/schedule/step.h": "struct Step {\n};\n", "src/executor/a.cc": "void f(const Step& step);\n"}
        self.assertEqual(violations_of(files), [])

    def test_all_kinds_of_types_are_seen(self):
        for declared in ("struct alignas(64) Step {\n};\n", "class [[nodiscard]] Step {\n};\n", "enum Step : int { kOne };\n",
                         "using Step = int;\n", "enum class Step {};\n", "class LOCKABLE(\"m\") Step {\n};\n"):
            files = {"src/schedule/step.h": declared, "src/kernels/a.cc": "void f(const Step& step);\n"}
            self.assertEqual(violations_of(files), ["src/kernels/a.cc: kernels must not use Step of schedule"], declared)

    def test_includes_name_the_folder(self):
        for target in ("../comm/communicator.h", "status.h"):
            self.assertEqual(len(violations_of({"src/core/a.cc": f'#include "{target}"\n'})), 1, target)

    def test_a_file_without_a_folder(self):
        self.assertEqual(len(violations_of({"src/version.h": "int x;\n", "src/core/a.h": "int x;\n"})), 1)

    def test_what_only_the_linker_sees(self):
        for declared, defined, name in (("bool is_there();\n", "bool is_there() {\n  return true;\n}\n", "is_there"),
                                        ("class Port {\n  int f();\n};\n", "int Port::f() {\n  return 1;\n}\n", "Port")):
            files = {"src/core/port.h": declared, "src/core/port.cc": defined}
            self.assertEqual(violations_of(files), [])
            files = {"src/core/port.h": declared, "src/kernels/port.cc": defined}
            self.assertEqual(violations_of(files), [f"src/kernels/port.cc: defines {name}, which core declares"])
            files["src/kernels/port.cc"] = f"namespace {{\n{defined}}}  // namespace\n"
            self.assertEqual(violations_of(files), [])

    def test_an_old_picture(self):
        page = {"docs/architecture.md": "a picture of nothing\n", "src/core/a.h": "int x;\n"}
        self.assertEqual(len(violations_of(page)), 1)
        page["docs/architecture.md"] = "```mermaid\nflowchart TD\n  core[core]\n```\n"
        self.assertEqual(violations_of(page), [])

    def test_documents_name_files_that_are_there(self):
        files = {"src/core/a.h": "int x;\n", "docs/page.md": "see `src/core/a.h`, `src/core/a*` and `src/core`\n"}
        self.assertEqual(violations_of(files), [])
        files["docs/page.md"] = "see `src/core/b.h`\n"
        self.assertEqual(violations_of(files), ["docs/page.md: there is no src/core/b.h"])

    def test_the_arrows_make_no_circle(self):
        below = {folder: {goal: 1 for goal in goals if goal in arrows.ARROWS} for folder, goals in arrows.ARROWS.items()}
        self.assertEqual(arrows.floors(below)["core"], 0)
        with self.assertRaises(SystemExit):
            arrows.floors({"a": {"b": 1}, "b": {"a": 1}})


class Sizes(unittest.TestCase):
    def test_folder_past_the_limits(self):
        files = {f"src/core/a{i}.h": "int x;\n" for i in range(arrows.MOST_FILES + 1)}
        self.assertEqual(violations_of(files), ["src/core: 41 files with 41 lines, the limit is 40 and 4500"])
        files = {f"src/core/a{i}.h": "int x;\n" * 460 for i in range(10)}
        self.assertEqual(violations_of(files), ["src/core: 10 files with 4600 lines, the limit is 40 and 4500"])

    def test_function_at_and_past_the_limit(self):
        self.assertEqual(violations_of({"src/core/a.cc": function_of(60)}), [])
        found = violations_of({"src/core/a.cc": function_of(61)})
        self.assertEqual(found, ["src/core/a.cc:2: f has 61 lines, the limit is 60"])

    def test_member_with_initializer_list(self):
        text = "struct A {\n  A(int x) : a_{x}, b_(x) {\n" + "    ++a_;\n" * 61 + "  }\n  int a_, b_;\n};\n"
        self.assertEqual(len(violations_of({"src/core/a.h": text})), 1)

    def test_braces_in_text_do_not_count(self):
        text = 'int f() {\n  const char* a = "{{{";  // {{\n  return \'{\' + a[0];\n}\n' + "int x;\n" * 70
        self.assertEqual(violations_of({"src/core/a.cc": text}), [])

    def test_table_of_lambdas_is_no_function(self):
        text = "const Row kRows[] = {\n" + "  {1, [](int x) { return x; }},\n" * 70 + "};\n"
        self.assertEqual(violations_of({"src/core/a.cc": text}), [])

    def test_file_past_the_limit(self):
        self.assertEqual(violations_of({"src/core/a.cc": "int x;\n" * 500}), [])
        self.assertEqual(len(violations_of({"src/core/a.cc": "int x;\n" * 501})), 1)


class Environment(unittest.TestCase):
    def test_reads_outside_the_table(self):
        text = 'const char* f() { return std::getenv("HOME"); }\n'
        self.assertEqual(len(violations_of({"src/transport/a.cc": text})), 1)
        self.assertEqual(violations_of({"src/core/settings.cc": text}), [])

    def test_comment_is_no_read(self):
        self.assertEqual(violations_of({"src/transport/a.cc": "// getenv is not used here\n"}), [])


class Tests(unittest.TestCase):
    LISTED = {"tests/CMakeLists.txt": "tutti_test(core)\ntutti_test(comm comm/join api)\n", "src/core/a.cc": "int x;\n",
              "tests/core/a_test.cc": "// Covers core/a.cc.\n"}

    def test_of_a_file_names_it(self):
        test = "tests/core/b_test.cc"
        self.assertEqual(violations_of({**self.LISTED, test: "// Covers core/a.cc.\n"}), [])
        for line, fault in (("int x;\n", "the first line does not say what is tested"),
                            ("// What a does.\n", "the first line does not say which files it covers"),
                            ("// Covers core/b.cc.\n", "there is no core/b.cc")):
            self.assertEqual(violations_of({**self.LISTED, test: line}), [f"{test}: {fault}"])

    def test_of_behaviour_says_what_it_is_and_names_files(self):
        test = "tests/api/a_test.cc"
        for text, faults in (("// Calls end.\n// Covers core/a.cc.\n", []),
                             ("// Calls end,\n// all of them.\n// Covers core/a.cc,\n// core/*.cc.\nint x;\n", []),
                             ("// Calls end.\n", ["no sentence at the top says which files it covers"]),
                             ("// Calls end.\n// Covers core/a.cc,\n// core/a.cc,\n// core/a.cc.\n",
                              ["no sentence at the top says which files it covers"]),
                             ("// Calls end.\n// Covers core/a.cc, core/b.cc.\n", ["there is no core/b.cc"]),
                             ("int x;\n", ["the first line does not say what is tested"])):
            self.assertEqual(violations_of({**self.LISTED, test: text}), [f"{test}: {fault}" for fault in faults], text)

    def test_of_a_script_names_it(self):
        tool, test = {"tools/a.py": "x = 1\n"}, "tests/tools/a_test.py"
        self.assertEqual(violations_of({**self.LISTED, **tool, test: '"""A tool."""\n# Covers tools/a.py.\n'}), [])
        for text, fault in (('"""A tool."""\n', "no sentence at the top says which files it covers"),
                            ('"""A tool."""\n# Covers tools/b.py.\n', "there is no tools/b.py")):
            self.assertEqual(violations_of({**self.LISTED, **tool, test: text}), [f"{test}: {fault}"])

    def test_every_file_has_one(self):
        files = {**self.LISTED, "src/core/b.cu": "int x;\n", "src/core/b.h": "int x;\n"}
        self.assertEqual(violations_of(files), ["src/core/b.cu: no test covers it"])
        for by in ({"tests/core/b_test.cc": "// Covers core/b.h.\n"},  # by its name
                   {"tests/api/a_test.cc": "// Calls end.\n// Covers core/*.cu.\n"},
                   {"tests/launch/run.sh": "#!/bin/sh\n# A launcher.\n# Covers core/b.cu.\n"}):
            self.assertEqual(violations_of({**files, **by}), [], by)

    def test_a_file_without_one_is_in_the_table(self):
        files = {**self.LISTED, "src/core/b.cc": "int x;\n"}
        table = "## Files that no test covers\n| file | why |\n|---|---|\n| `src/core/b.cc` | its time alone |\n{}\n## More\n"
        self.assertEqual(violations_of({**files, "docs/testing.md": table.format("")}), [])
        for row, fault in (("| `src/core/a.cc` | a test is not needed |\n", "src/core/a.cc has a test"),
                           ("| `src/core/c.cc` | it has gone |\n", "there is no src/core/c.cc")):
            self.assertEqual(violations_of({**files, "docs/testing.md": table.format(row)}), [f"docs/testing.md: {fault}"])
        elsewhere = table.replace("## Files", "## Other files")
        self.assertEqual(violations_of({**files, "docs/testing.md": elsewhere.format("")}), ["src/core/b.cc: no test covers it"])

    def test_is_in_a_program(self):
        test = {"tests/join/a_test.cc": "// A join ends.\n// Covers core/a.cc.\n"}
        self.assertEqual(violations_of({**self.LISTED, **test}),
                         ["tests/join/a_test.cc: no program of tests/CMakeLists.txt has the folder join"])
        self.assertEqual(violations_of({**self.LISTED, **test, "tests/join/CMakeLists.txt": ""}), [])


class Classes(unittest.TestCase):
    def test_class_at_and_past_the_limit(self):
        for count, found in ((75, []), (76, ["src/core/a.h:1: A has 76 functions, the limit is 75"])):
            text = "class A {\n" + "".join(f"  void f{i}();\n" for i in range(count)) + "  int a_ = 0;\n};\n"
            self.assertEqual(violations_of({"src/core/a.h": text}), found)
            self.assertEqual(violations_of({"tests/device/a.h": text}), [])

    def test_what_is_a_function(self):
        text = """template <class T>
class alignas(64) A final : public B<T>, private C {
 public:
  explicit A(int x) : x_{x}, y_(x) { ++y_; }
  A(const A&) = delete;
  A& operator=(const A&) = delete;
  ~A() override;
  [[nodiscard]] Status f(std::function<void(int)> g = {}) const TUTTI_REQUIRES(mutex_);
  template <class U>
  void h(U u) {
    for (;;) u();
  }
  using Call = void (*)(int);
  enum class Kind { kOne };
  struct Inner {
    void in();
  };
  friend void f(A&);

 private:
  std::function<void(int)> called_;
  void (*pointer_)(int) = nullptr;
  std::atomic<int> x_{0};
  int y_ TUTTI_GUARDED_BY(mutex_) = f(1);
};
"""
        self.assertEqual(list(check_style.classes(text)), [("A", 2, 6, 4), ("Inner", 15, 1, 0)])
        self.assertEqual(list(check_style.classes("enum class A { kOne };\nclass B;\nvoid f(class C c) {}\n")), [])


class Prose(unittest.TestCase):
    def faults_of(self, comment, folder="src/core"):
        return violations_of({f"{folder}/a.h": comment + "\nint x;\n"})

    def test_comments_that_are_no_sentence(self):
        for text in ("/// Of device memory; whoever allocated it.", "/// The same for a copy.", "// The same, on the root only.",
                     "/// By the thread that calls it.", "// In vain.", "/// As typed.", "/// With a tag, any int.",
                     "/** With -g: whether there are devices. */", "// As many blocks\n// as keep a device busy."):
            self.assertEqual(len(self.faults_of(text)), 1, text)

    def test_comments_that_are(self):
        for text in ("/// Offers memory of the device.", "/// The same rank asks twice.", "// By default nothing is logged.",
                     "// As long as it lives, a cancel waits.", "// With more ranks than cores the spin does not pay, so it ends.",
                     "// A list:\n// Of this and that.", "int y;  ///< of the reader"):
            self.assertEqual(self.faults_of(text), [], text)

    def test_words_that_are_avoided(self):
        for text in ("// It stands behind another call.", "// It waits in vain.", "// An error is told on stderr.",
                     'const char* s = "told of a death";', "/* Behind\n * that one. */"):
            self.assertEqual(len(self.faults_of(text)), 1, text)
        for text in ("// It leaves no file behind.", "// hidden behind the computation", "// It was told to stop.",
                     "// They are told apart by tag.", 'const char* s = "told by rank 1";', "int told = 1;"):
            self.assertEqual(self.faults_of(text), [], text)

    def test_tests_are_not_checked(self):
        self.assertEqual(self.faults_of("/// Of a rank.", "tests/comm"), [])

    def test_long_lines(self):
        for line, count in (("// " + "a" * 117, 0), ("// " + "a" * 118, 1), ('const char* s = "' + "a" * 120 + '";', 0)):
            self.assertEqual(len(self.faults_of(line)), count, line)
            self.assertEqual(len(self.faults_of(line, "tests/core")), count, line)

    def test_long_lines_of_documents(self):
        wide = "a" * 121
        self.assertEqual(violations_of({"docs/new.md": f"{wide}\n"}), ["docs/new.md:1: 121 columns, the limit is 120"])
        self.assertEqual(len(violations_of({"README.md": f"a\n{wide}\n"})), 1)
        for page, text in (("docs/new.md", f"| {wide} |\n```\n{wide}\n```\n{wide[:120]}\n"), ("CHANGELOG.md", f"{wide}\n")):
            self.assertEqual(violations_of({page: text}), [], page)


class Comments(unittest.TestCase):
    def test_share(self):
        self.assertEqual(check_style.comment_lines("// a\nint x;  // b\n/* c\n d */\n\nint y;\n"), (4, 5))

    def test_blocks(self):
        text = '/// One,\n/// two.\nint x;  // three\n// four\n/* five\n * six */\nconst char* s = "// none";\n'
        self.assertEqual(literals.comments(text), [(1, "One, two."), (3, "three"), (4, "four five six")])


if __name__ == "__main__":
    unittest.main()
