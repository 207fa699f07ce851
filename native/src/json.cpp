#include "json.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <locale>
#include <sstream>
#include <stdexcept>

namespace binaryrelax {
namespace {

constexpr int MOST_DEPTH = 32;
constexpr int64_t MOST_VALUES = 1 << 20;
constexpr size_t LONGEST_NUMBER = 400;
constexpr size_t LONGEST_QUOTE = 80;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::optional<double> parse_double(std::string_view text) {
    double value = 0.0;
#ifdef __cpp_lib_to_chars
    const std::from_chars_result result = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool read = result.ec == std::errc() && result.ptr == text.data() + text.size();
#else  // a library without it; unlike strtod, this does not ask how the user's country writes numbers
    std::istringstream stream{std::string(text)};
    stream.imbue(std::locale::classic());
    const bool read = static_cast<bool>(stream >> value);
#endif
    return read && std::isfinite(value) ? std::optional<double>(value) : std::nullopt;
}

void append_utf8(std::string& text, uint32_t code) {
    const auto last = [&](int shift) { text += static_cast<char>(0x80 | (code >> shift & 0x3f)); };
    if (code < 0x80) {
        text += static_cast<char>(code);
    } else if (code < 0x800) {
        text += static_cast<char>(0xc0 | code >> 6);
        last(0);
    } else if (code < 0x10000) {
        text += static_cast<char>(0xe0 | code >> 12);
        last(6), last(0);
    } else {
        text += static_cast<char>(0xf0 | code >> 18);
        last(12), last(6), last(0);
    }
}

class Parser {
  public:
    explicit Parser(std::string_view text) : text_(text) {}

    Json whole() {
        Json result = value(0);
        skip_space();
        if (place_ != text_.size()) fail("something follows the value");
        return result;
    }

  private:
    [[noreturn]] void fail(const char* problem) const {
        throw std::invalid_argument(std::string(problem) + " at byte " + std::to_string(place_));
    }

    bool at(char c) const { return place_ < text_.size() && text_[place_] == c; }
    bool take(char c) {
        if (!at(c)) return false;
        ++place_;
        return true;
    }
    void skip_space() {
        while (at(' ') || at('\t') || at('\n') || at('\r')) ++place_;
    }
    bool take_word(std::string_view word) {
        if (text_.substr(place_, word.size()) != word) return false;
        place_ += word.size();
        return true;
    }

    Json value(int depth) {
        if (++values_ > MOST_VALUES) fail("too many values");
        if (depth > MOST_DEPTH) fail("too deep");
        skip_space();
        if (take('{')) return object(depth);
        if (take('[')) return list(depth);
        if (at('"')) return Json(string());
        if (take_word("true")) return Json(true);
        if (take_word("false")) return Json(false);
        if (take_word("null")) return Json();
        return number();
    }

    Json list(int depth) {
        Json::List items;
        skip_space();
        if (take(']')) return Json(std::move(items));
        do {
            items.push_back(value(depth + 1));
            skip_space();
        } while (take(','));
        if (!take(']')) fail("neither , nor ]");
        items.shrink_to_fit();
        return Json(std::move(items));
    }

    Json object(int depth) {
        Json::Object members;
        skip_space();
        if (take('}')) return Json(std::move(members));
        do {
            skip_space();
            if (!at('"')) fail("no name");
            std::string name = string();
            skip_space();
            if (!take(':')) fail("no :");
            members.push_back({std::move(name), value(depth + 1)});
            skip_space();
        } while (take(','));
        if (!take('}')) fail("neither , nor }");
        const auto by_name = [](const Json::Member& a, const Json::Member& b) { return a.name < b.name; };
        std::sort(members.begin(), members.end(), by_name);
        for (size_t i = 1; i < members.size(); ++i) {
            if (members[i - 1].name == members[i].name) fail("a name stands twice in the object that ends");
        }
        members.shrink_to_fit();
        return Json(std::move(members));
    }

    Json number() {
        const size_t begin = place_;
        take('-');
        if (!take('0')) digits();
        bool whole = true;
        if (take('.')) {
            whole = false;
            digits();
        }
        if (at('e') || at('E')) {
            whole = false;
            ++place_;
            if (!take('+')) take('-');
            digits();
        }
        if (place_ - begin > LONGEST_NUMBER) fail("a number is too long");
        const std::string_view digits = text_.substr(begin, place_ - begin);
        int64_t integer = 0;
        if (whole && std::from_chars(digits.data(), digits.data() + digits.size(), integer).ec == std::errc()) {
            return Json(integer);
        }
        const std::optional<double> value = parse_double(digits);
        if (!value) fail("a number is out of range");
        return Json(*value);
    }

    void digits() {
        if (place_ >= text_.size() || !is_digit(text_[place_])) fail("no value");
        while (place_ < text_.size() && is_digit(text_[place_])) ++place_;
    }

    std::string string() {
        std::string result;
        ++place_;
        while (!take('"')) {
            if (place_ >= text_.size()) fail("text without an end");
            const size_t plain = place_;
            while (place_ < text_.size() && is_plain(text_[place_])) ++place_;
            result.append(text_, plain, place_ - plain);
            if (place_ >= text_.size() || text_[place_] == '"') continue;
            if (take('\\')) {
                escape(result);
            } else {
                character(result);
            }
        }
        return result;
    }

    static bool is_plain(char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; }

    void escape(std::string& result) {
        static constexpr std::string_view NAMES = "\"\\/bfnrt", MEANT = "\"\\/\b\f\n\r\t";
        if (take('u')) return append_utf8(result, escaped_code());
        const size_t known = place_ < text_.size() ? NAMES.find(text_[place_]) : std::string_view::npos;
        if (known == std::string_view::npos) fail("an unknown escape");
        result += MEANT[known];
        ++place_;
    }

    // A character beyond 16 bits is escaped as two surrogates, which mean nothing alone.
    uint32_t escaped_code() {
        const uint32_t first = hexadecimal();
        if (first < 0xd800 || first > 0xdfff) return first;
        if (first > 0xdbff || !take_word("\\u")) fail("half a character");
        const uint32_t second = hexadecimal();
        if (second < 0xdc00 || second > 0xdfff) fail("half a character");
        return 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    }

    uint32_t hexadecimal() {
        uint32_t code = 0;
        const std::string_view digits = text_.substr(place_, 4);
        const std::from_chars_result read = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
        if (digits.size() < 4 || read.ec != std::errc() || read.ptr != digits.data() + 4) fail("no four digits");
        place_ += 4;
        return code;
    }

    // One character of UTF-8, in its shortest form, and no surrogate; DEL is one, too.
    void character(std::string& result) {
        const auto byte = [&](size_t i) -> uint32_t {
            return place_ + i < text_.size() ? static_cast<uint8_t>(text_[place_ + i]) : 0;
        };
        const uint32_t first = byte(0);
        const size_t length = first == 0x7f ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
        if (length == 0) fail(first < 0x20 ? "a control character in a text" : "text that is not UTF-8");
        uint32_t code = length == 1 ? first : first & (0x7fu >> length);
        for (size_t i = 1; i < length; ++i) {
            if (byte(i) >> 6 != 2) fail("text that is not UTF-8");
            code = code << 6 | (byte(i) & 0x3f);
        }
        const bool is_long = (length == 3 && code < 0x800) || (length == 4 && (code < 0x10000 || code > 0x10ffff));
        if (is_long || (code >= 0xd800 && code <= 0xdfff)) fail("text that is not UTF-8");
        result.append(text_, place_, length);
        place_ += length;
    }

    std::string_view text_;
    size_t place_ = 0;
    int64_t values_ = 0;
};

}  // namespace

std::optional<double> Json::number() const {
    if (const int64_t* whole = integer()) return static_cast<double>(*whole);
    const double* value = std::get_if<double>(&value_);
    return value ? std::optional<double>(*value) : std::nullopt;
}

const Json* Json::find(std::string_view name) const {
    const Object* members = object();
    if (!members) return nullptr;
    const auto is_before = [](const Member& member, std::string_view wanted) { return member.name < wanted; };
    const auto found = std::lower_bound(members->begin(), members->end(), name, is_before);
    return found != members->end() && found->name == name ? &found->value : nullptr;
}

Json parse_json(std::string_view text) { return Parser(text).whole(); }

std::string quoted(std::string_view text) {
    static constexpr char HEXADECIMAL[] = "0123456789abcdef";
    std::string result = "'";
    for (const char c : text.substr(0, LONGEST_QUOTE)) {
        const uint8_t byte = static_cast<uint8_t>(c);
        if (byte >= 0x20 && byte < 0x7f) {
            result += c;
        } else {
            result += {'\\', 'x', HEXADECIMAL[byte >> 4], HEXADECIMAL[byte & 15]};
        }
    }
    return result + (text.size() > LONGEST_QUOTE ? "...'" : "'");
}

}  // namespace binaryrelax
