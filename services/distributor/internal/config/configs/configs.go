// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package configs reads the values that services' configurations refer to from the back ends that
// keep them.
//
// # Promises
//
// One replica of the hub reads a back end, each path once for any number of services, at most
// MaxReads at once and ReadsPerSecond. An answer is stored whole. A back end that does not answer
// changes nothing: the last good answer stays, and it is asked ever more rarely. No answer of a
// back end makes a value disappear from a service that has it: Resolve keeps it, and reports the
// problem. No error, log or metric holds a value.
//
// # States
//
// An entry is unread, good, failing with a good answer before, or failing without one. Resolve is a
// pure function of the entries, of what a service was given before, and of the time.
//
// # What it does not do
//
// It speaks to no back end and to no database: adapters implement Backend and Entries.
package configs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

// Bounds of one entry.
const (
	// MaxEntryBytes bounds the keys and values of an entry together. Adapters read no more than
	// some multiple of it from a back end.
	MaxEntryBytes = 1 << 20
	// MaxFields bounds the keys of an entry.
	MaxFields = 1024
	// maxFieldName and maxVersion bound a key and a version, in bytes.
	maxFieldName, maxVersion = 512, 256
)

// Backend reads one place where values are kept. Its methods may be called concurrently; the Reader
// bounds and repeats calls, and keeps the answers.
type Backend interface {
	// Read returns the entry at a path. *NotFoundError and *DeniedError are answers: there is no such
	// entry for the hub. *ThrottledError has the time to wait. After any other error the entry is
	// unknown. No error holds a value.
	Read(ctx context.Context, path string) (Entry, error)
	// Check makes sure that settings and credential work, without reading an entry.
	Check(ctx context.Context) error
	// Close ends sessions. It is called once, after all reads.
	Close() error
}

// Entry is the content under one path.
type Entry struct {
	// Fields are the values by key.
	Fields map[string]secret.Text
	// NotText are the keys, sorted, whose values are not UTF-8 text and therefore not in Fields.
	NotText []string
	// Version is the back end's name for this state of the entry. Empty: it has none.
	Version string
	// TTL is how long the answer holds; zero: as long as the back end's refresh.
	TTL time.Duration
}

// EntryOf returns the entry of values that may be any bytes.
func EntryOf(values map[string][]byte, version string) Entry {
	entry := Entry{Fields: make(map[string]secret.Text, len(values)), Version: version}
	for _, key := range sortedKeys(values) {
		if utf8.Valid(values[key]) {
			entry.Fields[key] = secret.Text(values[key])
		} else {
			entry.NotText = append(entry.NotText, key)
		}
	}
	return entry
}

// NotTextError means that a key has a value that configurations cannot hold.
type NotTextError struct{ Key string }

// Error implements error.
func (e *NotTextError) Error() string {
	return fmt.Sprintf("the value of the key %q is not UTF-8 text", e.Key)
}

// NotFoundError is the answer that there is no such entry.
type NotFoundError struct {
	// Detail has details, such as that a version was deleted. May be empty.
	Detail string
}

// Error implements error.
func (e *NotFoundError) Error() string { return withDetail("the back end has no such entry", e.Detail) }

// DeniedError is the answer that the hub may not read the entry.
type DeniedError struct {
	// Detail is why. May be empty.
	Detail string
}

// Error implements error.
func (e *DeniedError) Error() string {
	return withDetail("the back end denies the hub this entry", e.Detail)
}

// ThrottledError means that the back end wants to be asked later.
type ThrottledError struct {
	// After is how long to wait; zero: unknown.
	After time.Duration
}

// Error implements error.
func (e *ThrottledError) Error() string { return "the back end wants to be asked less often" }

func withDetail(text, detail string) string {
	if detail == "" {
		return text
	}
	return text + ": " + detail
}

// answerIn reports whether an error of Read is an answer of the back end, and whether that is that
// there is no such entry.
func answerIn(err error) (isRefused, isAbsent bool) {
	_, isAbsent = errors.AsType[*NotFoundError](err)
	_, isDenied := errors.AsType[*DeniedError](err)
	return isAbsent || isDenied, isAbsent
}

// Check returns an error unless the entry is within the bounds. The error holds no value.
func (e Entry) Check() error {
	if n := len(e.Fields) + len(e.NotText); n > MaxFields {
		return fmt.Errorf("the entry has %d keys; at most %d are allowed", n, MaxFields)
	}
	total := 0
	for _, name := range e.NotText {
		total += len(name)
		if err := checkFieldName(name); err != nil {
			return err
		}
	}
	for name, value := range e.Fields {
		total += len(name) + len(value)
		if err := checkFieldName(name); err != nil {
			return err
		}
		if !utf8.ValidString(value.Reveal()) {
			return &NotTextError{Key: name}
		}
	}
	if total > MaxEntryBytes {
		return fmt.Errorf("the entry has %d bytes; at most %d are allowed", total, MaxEntryBytes)
	}
	if len(e.Version) > maxVersion || !utf8.ValidString(e.Version) {
		return fmt.Errorf("the version of the entry is not UTF-8 text of at most %d bytes", maxVersion)
	}
	return nil
}

func checkFieldName(name string) error {
	if name == "" || len(name) > maxFieldName || !utf8.ValidString(name) {
		return fmt.Errorf("the entry has a key that is not UTF-8 text of 1 to %d bytes", maxFieldName)
	}
	return nil
}

// Equal reports whether two entries hold the same. Their lifetimes do not matter.
func (e Entry) Equal(other Entry) bool {
	return e.Version == other.Version && maps.Equal(e.Fields, other.Fields) && slices.Equal(e.NotText, other.NotText)
}

// notText returns the error for a reference's key whose value, or a part of it, is not text.
func (e Entry) notText(key string) error {
	switch {
	case len(e.NotText) > 0 && key == "":
		return &NotTextError{Key: e.NotText[0]}
	case key != "" && slices.Contains(e.NotText, key):
		return &NotTextError{Key: key}
	}
	return nil
}

// FieldsOf returns fields of plain text.
func FieldsOf(plain map[string]string) map[string]secret.Text {
	fields := make(map[string]secret.Text, len(plain))
	for name, value := range plain {
		fields[name] = secret.Text(value)
	}
	return fields
}

// FieldsOfJSON returns the members of a JSON object as fields: a text as it is, anything else as
// JSON. The error holds nothing of the text.
func FieldsOfJSON(text []byte) (map[string]secret.Text, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil || members == nil {
		return nil, errors.New("the entry is not a JSON object")
	}
	if len(members) > MaxFields {
		return nil, fmt.Errorf("the entry has %d keys; at most %d are allowed", len(members), MaxFields)
	}
	fields := make(map[string]secret.Text, len(members))
	for name, member := range members {
		var plain string
		if err := json.Unmarshal(member, &plain); err != nil || string(member) == "null" {
			plain = string(member)
		}
		fields[name] = secret.Text(plain)
	}
	return fields, nil
}

// State is the state of an entry.
type State struct {
	// Last is the last good answer; nil before the first.
	Last *Entry
	// ReadAt is when the back end gave it.
	ReadAt time.Time
	// Failure is the kind of the latest failure; empty: none.
	Failure string
	// IsRefused means that the last time the back end answered that there is no such entry for the
	// hub.
	IsRefused bool
	// IsAbsent means that the refusal was that there is no such entry, for anybody.
	IsAbsent bool
	// IsOverdue means that the last good answer is much older than it should be.
	IsOverdue bool
}

// Task is a path whose time to be read has come.
type Task struct {
	Path string
	// Attempts is how often it failed since the last good answer.
	Attempts int
	// ReadAt is when the last good answer came; zero: there is none.
	ReadAt time.Time
}

// Failed is a read that brought no entry.
type Failed struct {
	// Message describes the failure. It holds no value.
	Message string
	// IsRefused, IsAbsent and IsOverdue are as in State.
	IsRefused, IsAbsent, IsOverdue bool
	// Next is when the path is due again.
	Next time.Time
}

// Entries keeps what was read, sealed, and when each path is due. An entry is written and read
// whole. Paths become known when services refer to them, and are due at once. Methods may be called
// concurrently, by several replicas. Errors match catalog.ErrUnavailable if the store does not
// answer.
type Entries interface {
	// Due returns paths of a back end whose time has come, the longest waiting first, if the
	// replica is the one that reads the back end. It becomes that for a while when no other is.
	Due(ctx context.Context, backendUID, replica string, now time.Time, limit int) ([]Task, error)
	// Release ends what Due began, for all back ends, so that another replica need not wait.
	Release(ctx context.Context, replica string) error
	// Save stores a good answer of that time. isChanged means that services obtain something else
	// now: the digests of their configurations were made again in the same transaction.
	Save(ctx context.Context, backendUID, path string, entry Entry, at, next time.Time) (isChanged bool, err error)
	// Fail stores that a path could not be read. isChanged means that services show it.
	Fail(ctx context.Context, backendUID, path string, failed Failed, at time.Time) (isChanged bool, err error)
	// Hasten makes a path due, or all paths of a back end if path is empty, and returns how many.
	Hasten(ctx context.Context, backendUID, path string, now time.Time) (int, error)
	// Prune forgets paths that no service has referred to for a day.
	Prune(ctx context.Context, now time.Time) error
	// Backend returns a back end with its credential. Error: *catalog.NotFoundError.
	Backend(ctx context.Context, uid string) (*catalog.ConfigBackend, error)
}

// sortedKeys returns the keys of a map, sorted.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
