// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package fingerprint

import (
	"encoding/json"
	"strconv"
	"strings"
)

// find returns the value at one element of a FieldsV1 path: "f:NAME" is a field, "k:{…}" the item
// of a list with these values, "v:VALUE" a value in a list, "i:N" the item at a position.
func find(in any, element string) (any, bool) {
	kind, rest, _ := strings.Cut(element, ":")
	switch kind {
	case "f":
		fields, _ := in.(map[string]any)
		value, ok := fields[rest]
		return value, ok
	case "k":
		return findItem(in, rest)
	case "v":
		return findValue(in, rest)
	case "i":
		list, _ := in.([]any)
		index, err := strconv.Atoi(rest)
		if err != nil || index < 0 || index >= len(list) {
			return nil, false
		}
		return list[index], true
	default:
		return nil, false
	}
}

func findItem(in any, key string) (any, bool) {
	list, _ := in.([]any)
	for _, item := range list {
		fields, ok := item.(map[string]any)
		if ok && matches(fields, key) {
			return item, true
		}
	}
	return nil, false
}

func findValue(in any, encoded string) (any, bool) {
	list, _ := in.([]any)
	for _, item := range list {
		if same(item, encoded) {
			return item, true
		}
	}
	return nil, false
}

// matches reports whether the fields have the values of a key, which is a flat JSON object such as
// {"port":80,"protocol":"TCP"}. It reads nearly all keys without decoding them.
func matches(fields map[string]any, key string) bool {
	if strings.IndexByte(key, '\\') >= 0 {
		return matchesEscaped(fields, key)
	}
	rest, ok := strings.CutPrefix(key, "{")
	for ok && rest != "" && rest != "}" {
		var name, value string
		name, rest, ok = strings.Cut(strings.TrimPrefix(strings.TrimPrefix(rest, ","), `"`), `":`)
		if !ok {
			return false
		}
		value, rest = cutScalar(rest)
		found, there := fields[name]
		if !there || !same(found, value) {
			return false
		}
	}
	return ok
}

// cutScalar splits text after the JSON scalar at its beginning, which contains no escapes.
func cutScalar(text string) (scalar, rest string) {
	end := strings.IndexAny(text, ",}")
	if strings.HasPrefix(text, `"`) {
		end = strings.IndexByte(text[1:], '"')
		if end >= 0 {
			end += len(`""`)
		}
	}
	if end < 0 {
		return text, ""
	}
	return text[:end], text[end:]
}

func matchesEscaped(fields map[string]any, key string) bool {
	var wanted map[string]json.RawMessage
	if err := json.Unmarshal([]byte(key), &wanted); err != nil {
		return false
	}
	for name, value := range wanted {
		found, there := fields[name]
		if !there || !same(found, string(value)) {
			return false
		}
	}
	return true
}

// same reports whether a value equals one in JSON.
func same(value any, encoded string) bool {
	if text, ok := value.(string); ok && len(encoded) >= len(`""`) && strings.IndexByte(encoded, '\\') < 0 {
		return encoded[0] == '"' && encoded[1:len(encoded)-1] == text
	}
	if number, ok := value.(int64); ok {
		var digits [20]byte
		return string(strconv.AppendInt(digits[:0], number, 10)) == encoded
	}
	var decoded any
	if err := json.Unmarshal([]byte(encoded), &decoded); err != nil {
		return false
	}
	switch decoded.(type) {
	case string, bool, float64, nil:
		return decoded == value
	default:
		return false
	}
}
