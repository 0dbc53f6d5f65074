// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"encoding/json"
	"log/slog"
	"strings"
)

// Change holds the fields that only records of the hub's own API have.
type Change struct {
	// RequestID is common to the records of one call.
	RequestID string
	// Kind is the kind of the object, such as "Service", and ObjectUID its uid. Empty: the call names
	// none.
	Kind      string
	ObjectUID string
	// Credential is the credential that the caller's token was issued for, such as the API token
	// "api.…", or the token itself. Empty: the hub acts itself.
	Credential string
	// TokenLimit describes what the caller's API token is limited to. Empty: it has no limit.
	TokenLimit string
	// StatedReason is why the caller makes the change, in their words. Empty: they gave no reason.
	StatedReason string
	// Fields are the changed fields, by path. It must not change any more.
	Fields []FieldChange
	// Omitted is how many more fields changed, for which the record has no room.
	Omitted int
}

// FieldChange is the change of one field of an object.
type FieldChange struct {
	// Path is the field's, as in the object's document: spec.sources[0].path. A key that holds other
	// characters than letters, digits, "_" and "-" is quoted: metadata.labels["a.b/c"].
	Path string `json:"path"`
	// Old and New are the values as JSON. Nil: the field is not set. Both are nil for a secret.
	Old json.RawMessage `json:"old,omitempty"`
	New json.RawMessage `json:"new,omitempty"`
	// Secret means that the value was set, replaced or removed, see Effect. It is in no record.
	Secret bool `json:"secret,omitempty"`
	// Effect is "set", "replaced" or "removed" for a secret, and empty for other fields.
	Effect string `json:"effect,omitempty"`
}

// weight is about how much memory a change takes.
func (c *Change) weight() int64 {
	if c == nil {
		return 0
	}
	size := len(c.RequestID) + len(c.Credential) + len(c.TokenLimit) + len(c.StatedReason)
	for _, field := range c.Fields {
		size += 64 + len(field.Path) + len(field.Old) + len(field.New)
	}
	return int64(size)
}

func (c *Change) attrs() []slog.Attr {
	return []slog.Attr{
		slog.String("request_id", c.RequestID),
		slog.String("kind", c.Kind),
		slog.String("object_uid", c.ObjectUID),
		slog.String("credential", c.Credential),
		slog.String("token_limit", c.TokenLimit),
		slog.String("stated_reason", c.StatedReason),
		slog.Any("changes", c.list()),
		slog.Int("changes_omitted", c.Omitted),
	}
}

// list returns the fields as a list that is never null in JSON.
func (c *Change) list() []FieldChange {
	if c.Fields == nil {
		return []FieldChange{}
	}
	return c.Fields
}

func (c *Change) text() string { return ChangesText(c.list()) }

// ChangesText returns the JSON of changed fields. Values that are not JSON, which no caller makes,
// leave it empty.
func ChangesText(fields []FieldChange) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false) // people read it
	if err := encoder.Encode(fields); err != nil {
		return "[]"
	}
	return strings.TrimSuffix(b.String(), "\n")
}
