// A strict reader of JSON (RFC 8259) for texts that nobody vouches for: names are unique, text is UTF-8, numbers are
// finite, and depth, length of numbers and count of values are limited, so that memory is too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace binaryrelax {

class Json {
  public:
    struct Member;
    using List = std::vector<Json>;
    using Object = std::vector<Member>;  // ordered by name

    Json() = default;
    template <typename Value>
    explicit Json(Value value) : value_(std::move(value)) {}

    // Null where the value is of another type.
    const bool* boolean() const { return std::get_if<bool>(&value_); }
    const int64_t* integer() const { return std::get_if<int64_t>(&value_); }  // has no point and no exponent
    const std::string* text() const { return std::get_if<std::string>(&value_); }
    const List* list() const { return std::get_if<List>(&value_); }
    const Object* object() const { return std::get_if<Object>(&value_); }
    std::optional<double> number() const;  // of any kind
    bool is_null() const { return std::holds_alternative<std::monostate>(value_); }

    // The member of that name; null if there is none, or the value is no object.
    const Json* find(std::string_view name) const;

  private:
    std::variant<std::monostate, bool, int64_t, double, std::string, List, Object> value_;
};

struct Json::Member {
    std::string name;
    Json value;
};

// Throws std::invalid_argument that says in one line where the text is no such JSON.
Json parse_json(std::string_view text);

// The text in quotes for a message of one line: control characters and what is not ASCII escaped, and not too long.
std::string quoted(std::string_view text);

}  // namespace binaryrelax
