# cmake -DROOT=... -DFILES=a;b -DOUTPUT=... -P EmbedTemplates.cmake: writes the source of tj::codegen::templates().
#
# One raw string literal a file; g++ and clang take any length. Invariant: the bytes embedded are the bytes on disk.
set(entries "")
foreach(name IN LISTS FILES)
  file(READ "${ROOT}/${name}" text)
  if(text MATCHES "\\)tj_template\"")
    message(FATAL_ERROR "kernel_templates/${name} contains the end mark of the literals, )tj_template\"")
  endif()
  string(APPEND entries "      {\"${name}\", R\"tj_template(${text})tj_template\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "// Generated from kernel_templates/ by .cmake/EmbedTemplates.cmake.
#include \"codegen/templates.hpp\"

#include \"support/lasting.hpp\"

#if defined(__clang__)
#pragma clang diagnostic ignored \"-Woverlength-strings\"
#endif

namespace tj::codegen {

const std::vector<TemplateFile>& templates() {
  static constinit support::Lasting<const std::vector<TemplateFile>> files;
  return files.get([] {
    return std::vector<TemplateFile>{
${entries}    };
  });
}

}  // namespace tj::codegen
")
