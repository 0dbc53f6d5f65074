// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package configstest is the suite that every configs.Backend has to pass.
package configstest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/internal/testkit/await"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
)

// Canary is in every value that the suite stores. It must be in no error and in no text of an
// entry.
const Canary = "canary-of-this-suite"

// Place is a back end with the means to change what it keeps. A function that is nil stands for
// what the back end cannot do.
type Place struct {
	Backend configs.Backend
	// Put replaces the entry at a path.
	Put func(t *testing.T, path string, fields map[string]string)
	// Remove removes the entry at a path.
	Remove func(t *testing.T, path string)
	// Deny has the back end refuse a path to the hub.
	Deny func(t *testing.T, path string)
	// Throttle has the back end ask to wait for a time with the next read.
	Throttle func(t *testing.T, after time.Duration)
	// Break has the back end fail, and returns what ends that.
	Break func(t *testing.T) (mend func())
	// Hang has the back end not answer until the test ends.
	Hang func(t *testing.T)
	// Largest bounds what the back end itself keeps, in bytes of one value. Zero: it has no bound that
	// matters.
	Largest int
	// HasVersions means that the back end numbers the states of an entry.
	HasVersions bool
	// Path returns the path of an entry by a simple name.
	Path func(name string) string
}

// Run runs the suite. open returns a place of its own for each call.
func Run(t *testing.T, open func(t *testing.T) Place) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Place){
		"entry": testEntry, "versions": testVersions, "absence": testAbsence, "denial": testDenial, "throttling": testThrottling,
		"large": testLarge, "too large": testTooLarge, "failure": testFailure, "cancellation": testCancellation, "paths": testPaths,
		"redaction": testRedaction,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func fields(pairs ...string) map[string]string {
	all := map[string]string{}
	for pair := range slices.Chunk(pairs, 2) {
		all[pair[0]] = Canary + pair[len(pair)-1]
	}
	return all
}

func (p Place) read(t *testing.T, path string) configs.Entry {
	t.Helper()
	entry, err := p.Backend.Read(t.Context(), path)
	if err == nil {
		err = entry.Check()
	}
	if err != nil {
		t.Fatalf("read %s: %v", path, err)
	}
	return entry
}

func (p Place) wantFields(t *testing.T, path string, want map[string]string) configs.Entry {
	t.Helper()
	entry := p.read(t, path)
	if !maps.Equal(entry.Fields, configs.FieldsOf(want)) {
		t.Fatalf("%s: got %d fields, not the %d that were put", path, len(entry.Fields), len(want))
	}
	return entry
}

// failing reads a path, and returns the error, which holds no canary.
func (p Place) failing(t *testing.T, path string) error {
	t.Helper()
	entry, err := p.Backend.Read(t.Context(), path)
	if err == nil {
		err = entry.Check()
	}
	if err == nil {
		t.Fatalf("read %s: got %d fields, want an error", path, len(entry.Fields))
	}
	if strings.Contains(err.Error(), Canary) {
		t.Errorf("the error holds a value: %v", err)
	}
	return err
}

func testEntry(t *testing.T, p Place) {
	if err := p.Backend.Check(t.Context()); err != nil {
		t.Fatalf("check: %v", err)
	}
	want := fields("user", "1", "password", "2", "line", "a\nb\tc=\"'ü")
	p.Put(t, p.Path("app"), want)
	p.Put(t, p.Path("other"), fields("user", "3"))
	p.wantFields(t, p.Path("app"), want)
	p.wantFields(t, p.Path("other"), fields("user", "3"))
	if err := p.Backend.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func testVersions(t *testing.T, p Place) {
	p.Put(t, p.Path("app"), fields("password", "1", "gone", "1"))
	first := p.read(t, p.Path("app"))
	if again := p.read(t, p.Path("app")); !again.Equal(first) {
		t.Error("two reads of one state differ")
	}
	p.Put(t, p.Path("app"), fields("password", "2"))
	second := p.wantFields(t, p.Path("app"), fields("password", "2"))
	if second.Equal(first) || p.HasVersions && (first.Version == "" || first.Version == second.Version) {
		t.Errorf("got versions %q and %q of two states", first.Version, second.Version)
	}
}

func testAbsence(t *testing.T, p Place) {
	p.Put(t, p.Path("app"), fields("password", "1"))
	for _, path := range []string{p.Path("absent"), p.Path("app2")} {
		if _, ok := errors.AsType[*configs.NotFoundError](p.failing(t, path)); !ok {
			t.Errorf("%s: got %v, want that there is no such entry", path, p.failing(t, path))
		}
	}
	p.Remove(t, p.Path("app"))
	if _, ok := errors.AsType[*configs.NotFoundError](p.failing(t, p.Path("app"))); !ok {
		t.Errorf("removed: got %v, want that there is no such entry", p.failing(t, p.Path("app")))
	}
}

func testDenial(t *testing.T, p Place) {
	if p.Deny == nil {
		t.Skip("the back end denies nothing")
	}
	p.Put(t, p.Path("open"), fields("password", "1"))
	p.Put(t, p.Path("closed"), fields("password", "2"))
	p.Deny(t, p.Path("closed"))
	if _, ok := errors.AsType[*configs.DeniedError](p.failing(t, p.Path("closed"))); !ok {
		t.Errorf("got %v, want a denial", p.failing(t, p.Path("closed")))
	}
	p.wantFields(t, p.Path("open"), fields("password", "1"))
}

func testThrottling(t *testing.T, p Place) {
	if p.Throttle == nil {
		t.Skip("the back end does not throttle")
	}
	p.Put(t, p.Path("app"), fields("password", "1"))
	p.Throttle(t, 7*time.Second)
	throttled, ok := errors.AsType[*configs.ThrottledError](p.failing(t, p.Path("app")))
	if !ok || throttled.After != 7*time.Second {
		t.Errorf("got %v, want to wait for 7 s", throttled)
	}
	p.wantFields(t, p.Path("app"), fields("password", "1"))
}

func testLarge(t *testing.T, p Place) {
	size := 900 << 10
	if p.Largest > 0 {
		size = min(size, p.Largest)
	}
	want := map[string]string{"large": Canary + strings.Repeat("x", size), "small": Canary}
	p.Put(t, p.Path("app"), want)
	p.wantFields(t, p.Path("app"), want)
}

func testTooLarge(t *testing.T, p Place) {
	if p.Largest > 0 {
		t.Skip("the back end keeps nothing so large")
	}
	p.Put(t, p.Path("app"), map[string]string{"large": Canary + strings.Repeat("x", configs.MaxEntryBytes)})
	err := p.failing(t, p.Path("app"))
	if _, ok := errors.AsType[*configs.NotFoundError](err); ok {
		t.Errorf("got %v, which says that there is no such entry", err)
	}
}

func testFailure(t *testing.T, p Place) {
	if p.Break == nil {
		t.Skip("the back end does not break")
	}
	p.Put(t, p.Path("app"), fields("password", "1"))
	mend := p.Break(t)
	err := p.failing(t, p.Path("app"))
	_, isAbsent := errors.AsType[*configs.NotFoundError](err)
	_, isDenied := errors.AsType[*configs.DeniedError](err)
	if isAbsent || isDenied {
		t.Errorf("got %v, which is an answer about the entry", err)
	}
	if p.Backend.Check(t.Context()) == nil {
		t.Error("the check succeeds with a broken back end")
	}
	mend()
	p.wantFields(t, p.Path("app"), fields("password", "1"))
}

func testCancellation(t *testing.T, p Place) {
	if p.Hang == nil {
		t.Skip("the back end does not hang")
	}
	p.Put(t, p.Path("app"), fields("password", "1"))
	p.Hang(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := p.Backend.Read(ctx, p.Path("app"))
		done <- err
	}()
	cancel()
	if err := await.Value(t, "the end of a cancelled read", done); err == nil {
		t.Error("a read that was cancelled succeeded")
	}
}

// testPaths reads paths that look like others.
func testPaths(t *testing.T, p Place) {
	p.Put(t, p.Path("app"), fields("password", "1"))
	for _, path := range []string{p.Path("app") + "%2e", p.Path("app") + " ", p.Path("app") + "%00"} {
		_ = p.failing(t, path) // any error will do
	}
}

func testRedaction(t *testing.T, p Place) {
	p.Put(t, p.Path("app"), fields("password", "1"))
	entry := p.read(t, p.Path("app"))
	for _, text := range []string{fmt.Sprintf("%v %+v", entry, entry), fmt.Sprint(entry.Fields), secret.Text(Canary).String()} {
		if strings.Contains(text, Canary) {
			t.Errorf("an entry prints as %s", text)
		}
	}
}
