// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package health

import "strings"

// object is the content of an unstructured object, or of a part of it. A field that is missing, or of another type than
// expected, reads as a zero value: what a status says is not ours to check.
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

// number reads an integer, and tells whether there is one.
func number(o object, path ...string) (int64, bool) {
	switch n := at(o, path...).(type) {
	case int64:
		return n, true
	case float64: // as other decoders read numbers
		return int64(n), true
	}
	return 0, false
}

// count reads an integer; missing is the given number.
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

// The statuses of conditions.
const (
	isTrue    = "True"
	isFalse   = "False"
	isUnknown = "Unknown"
)

// condition is one of an object's status. The zero condition is one that is not there.
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

// say makes a sentence of a condition.
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

// sayOr makes a sentence of a condition that may say nothing.
func (c condition) sayOr(otherwise string) string {
	if said := c.say(); said != "" {
		return said
	}
	return otherwise
}
