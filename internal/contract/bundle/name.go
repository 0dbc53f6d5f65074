// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"strings"
	"unicode/utf8"
)

// CheckName returns nil if an entry may have this name. The error is an [*EntryError] or a
// [*LimitError].
//
// A name is valid UTF-8 of at most [MaxNameBytes] bytes, made of elements separated by single
// slashes, none of them empty, "." or "..". It has no NUL, which ends a name in tar, and no
// backslash, which separates elements for some readers and so could hide a "..".
func CheckName(name string) error {
	if reason := textFault(name); reason != "" {
		return &EntryError{Name: name, Reason: reason}
	}
	if len(name) > MaxNameBytes {
		return &LimitError{Limit: LimitNameBytes, Max: MaxNameBytes, Name: name[:MaxNameBytes]}
	}
	if strings.HasPrefix(name, "/") {
		return &EntryError{Name: name, Reason: "is an absolute path"}
	}
	for element := range strings.SplitSeq(name, "/") {
		switch element {
		case "":
			return &EntryError{Name: name, Reason: "has an empty element"}
		case ".", "..":
			return &EntryError{Name: name, Reason: "has a " + element + " element"}
		}
	}
	return nil
}

// ReasonOutside is the reason of the [*EntryError] of a symbolic link that leads out of the bundle.
const ReasonOutside = "links to outside the bundle"

// CheckTarget reports whether the symbolic link called name, itself a valid name, may point to
// target; the error is an [*EntryError] or a [*LimitError].
//
// A target is relative, and ".." comes only before every other element and never climbs above the
// bundle's folder. A ".." after an element is refused even where it looks harmless, because that
// element may be a symbolic link itself and the ".." would then start from that link's target. With
// this rule no chain of links can leave the folder. Whether the target exists does not matter. A
// trailing slash, "." and doubled slashes are kept as they are.
func CheckTarget(name, target string) error {
	if reason := textFault(target); reason != "" {
		return &EntryError{Name: name, Reason: "links to a target that " + reason}
	}
	if len(target) > MaxNameBytes {
		return &LimitError{Limit: LimitNameBytes, Max: MaxNameBytes, Name: name}
	}
	if strings.HasPrefix(target, "/") {
		return &EntryError{Name: name, Reason: "links to an absolute path"}
	}
	return checkClimb(name, target)
}

func checkClimb(name, target string) error {
	depth, descended := strings.Count(name, "/"), false
	for element := range strings.SplitSeq(target, "/") {
		switch {
		case element == "" || element == ".":
			continue
		case element != "..":
			descended = true
		case descended:
			return &EntryError{Name: name, Reason: "links to a target with .. after another element"}
		case depth == 0:
			return &EntryError{Name: name, Reason: ReasonOutside}
		default:
			depth--
		}
	}
	return nil
}

// textFault returns why the text of a name or a target is invalid, or "" if it is valid.
func textFault(text string) string {
	switch {
	case text == "":
		return "is empty"
	case strings.ContainsRune(text, 0):
		return "holds a NUL byte"
	case strings.ContainsRune(text, '\\'):
		return "holds a backslash"
	case !utf8.ValidString(text):
		return "is not valid UTF-8"
	default:
		return ""
	}
}

// sequence checks what a single entry cannot show: that names come in strictly rising bytewise
// order, and that no entry lies below another one that is a file or a symbolic link. The zero
// sequence is ready to use.
type sequence struct {
	last string
	// stems are the names accepted so far that the latest name begins with, each a prefix of the
	// next. In sorted order every name between "a" and "a/b" begins with "a", so this short stack
	// suffices.
	stems []string
}

func (s *sequence) add(name string) error {
	if s.last != "" && name <= s.last {
		reason := "comes after " + quoteShort(s.last) + ", want strictly rising bytewise order"
		if name == s.last {
			reason = "comes twice"
		}
		return &EntryError{Name: name, Reason: reason}
	}
	for len(s.stems) > 0 && !strings.HasPrefix(name, s.stems[len(s.stems)-1]) {
		s.stems = s.stems[:len(s.stems)-1]
	}
	for _, stem := range s.stems {
		if name[len(stem)] == '/' {
			return &EntryError{Name: name, Reason: "lies below " + quoteShort(stem) + ", which is not a folder"}
		}
	}
	s.stems = append(s.stems, name)
	s.last = name
	return nil
}

func quoteShort(name string) string {
	const enough = 120
	if len(name) > enough {
		name = strings.ToValidUTF8(name[:enough], "") + "…"
	}
	return `"` + name + `"`
}
