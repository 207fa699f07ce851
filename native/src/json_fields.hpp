// The members of a JSON object, asked for by name and type. Whatever is missing, of another type, out of bounds or
// never asked for is refused with a line that begins with `where`.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "json.hpp"

namespace binaryrelax {

class Fields {
  public:
    Fields(const Json& object, std::string where);

    // Null if there is none.
    const Json* find(const char* name);
    const Json& need(const char* name);

    const std::string& text(const char* name);
    const Json::List& list(const char* name);
    const Json::Object& object(const char* name);
    int64_t integer(const char* name, int64_t least, int64_t most);
    // The place of the text among the choices.
    int choice(const char* name, std::initializer_list<const char*> choices);
    // The value that is given if the member is missing.
    bool boolean(const char* name, bool otherwise);
    // As many integers as there is room for, which stays as it is if the member is missing.
    template <size_t Count>
    void integers(const char* name, int64_t (&values)[Count], int64_t least, int64_t most) {
        read_integers(name, values, Count, least, most);
    }
    // One that float32 can hold.
    float number(const char* name);

    // Refuses members that nobody has asked for.
    void finish() const;
    [[noreturn]] void fail(const std::string& problem) const;
    const std::string& where() const { return where_; }

  private:
    void read_integers(const char* name, int64_t* values, size_t count, int64_t least, int64_t most);

    const Json::Object* members_;
    const Json* object_;
    std::string where_;
    std::vector<const Json*> known_;
};

// The number as float32. Throws std::invalid_argument if it is none or beyond its range.
float checked_float(const Json& value, const std::string& where);

}  // namespace binaryrelax
