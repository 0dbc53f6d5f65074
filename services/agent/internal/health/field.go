// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package health

import "strings"

// object is the content of an unstructured object, or of a part of it. A field that is missing, or
// of another type than expected, reads as a zero value: Leat does not validate what controllers
// report.
type object = map[string]any

func at(o object, path ...string) any {
	for _, name := range path[:len(path)-1] {
		next, ok := o[name].(object)
		if !ok {
			return nil
		}
		o = next
	}
	return o[path[len(path)-1]]
}

// number returns an integer, and reports whether the field holds one.
func number(o object, path ...string) (int64, bool) {
	switch n := at(o, path...).(type) {
	case int64:
		return n, true
	case float64: // as other decoders read numbers
		return int64(n), true
	}
	return 0, false
}

// count returns an integer, or missing if the field does not hold one.
func count(o object, missing int64, path ...string) int64 {
	if n, ok := number(o, path...); ok {
		return n
	}
	return missing
}

func text(o object, path ...string) string {
	s, _ := at(o, path...).(string)
	return s
}

func flag(o object, path ...string) bool {
	b, _ := at(o, path...).(bool)
	return b
}

func items(o object, path ...string) []any {
	list, _ := at(o, path...).([]any)
	return list
}

// The values of a condition's status.
const (
	isTrue    = "True"
	isFalse   = "False"
	isUnknown = "Unknown"
)

// condition is an entry of status.conditions. The zero condition stands for a missing one.
type condition struct {
	status, reason, message string
}

func conditionOf(o object, kind string) condition {
	for _, item := range items(o, "status", "conditions") {
		c, _ := item.(object)
		if c["type"] != kind {
			continue
		}
		return condition{status: text(c, "status"), reason: text(c, "reason"), message: text(c, "message")}
	}
	return condition{}
}

// say formats a condition as a sentence.
func (c condition) say() string {
	message := strings.TrimSpace(c.message)
	switch {
	case message == "":
		return c.reason
	case c.reason == "" || strings.Contains(message, c.reason):
		return message
	default:
		return c.reason + ": " + message
	}
}
