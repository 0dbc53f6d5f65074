// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package configs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/leatdev/leat/internal/contract/configref"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/kit/secret"
	"github.com/leatdev/leat/services/distributor/internal/config/configs"
	"github.com/leatdev/leat/services/distributor/internal/spine/catalog"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

const (
	user     = "v://app#user"
	password = "v://app#password"
)

func entry(fields map[string]string) *configs.Entry {
	return &configs.Entry{Fields: configs.FieldsOf(fields)}
}

func given(references map[string]string, values map[string]string) map[string]configs.Value {
	all := map[string]configs.Value{}
	for key, value := range values {
		all[key] = configs.Value{Reference: references[key], Text: secret.Text(value)}
	}
	return all
}

// TestResolve walks through the possible contents of a back end, for a service that had values and
// one that did not.
func TestResolve(t *testing.T) {
	t.Parallel()
	both := map[string]string{"U": user, "P": password}
	optional := map[string]string{"P": password, "O": "v://app#more?"}
	old := map[string]string{"U": "u1", "P": "p1"}
	good := map[string]string{"user": "u2", "password": "p2"}
	read := now.Add(-time.Minute)
	for _, test := range []struct {
		name       string
		references map[string]string
		given      map[string]string
		state      configs.State
		change     func(*catalog.ConfigBackend)
		want       map[string]string
		why        reason.Reason
		waits      bool
	}{
		{name: "never asked", references: both, why: reason.ConfigMissing, waits: true},
		{name: "good", references: both, state: configs.State{Last: entry(good), ReadAt: read}, want: map[string]string{"U": "u2", "P": "p2"}},
		{name: "changed", references: both, given: old, state: configs.State{Last: entry(good), ReadAt: read}, want: map[string]string{"U": "u2", "P": "p2"}},
		{
			name: "a key is gone: no mixture", references: both, given: old, want: old, why: reason.ConfigMissing,
			state: configs.State{Last: entry(map[string]string{"user": "u2"}), ReadAt: read},
		},
		{
			name: "a key is not there, and one is new", references: both, given: map[string]string{"P": "p1"}, want: map[string]string{"P": "p1"},
			state: configs.State{Last: entry(map[string]string{"user": "u2"}), ReadAt: read}, why: reason.ConfigMissing, waits: true,
		},
		{
			name: "away", references: both, given: old, want: map[string]string{"U": "u2", "P": "p2"},
			state: configs.State{Last: entry(good), ReadAt: read, Failure: "away"},
		},
		{
			name: "away for long", references: both, given: old, want: map[string]string{"U": "u2", "P": "p2"}, why: reason.ConfigStale,
			state: configs.State{Last: entry(good), ReadAt: read, Failure: "away", IsOverdue: true},
		},
		{
			name: "away from the beginning", references: both, state: configs.State{Failure: "away"}, why: reason.ConfigMissing, waits: true,
		},
		{
			name: "denied", references: both, given: old, want: old, why: reason.ConfigMissing,
			state: configs.State{Last: entry(good), ReadAt: read, Failure: "denied", IsRefused: true},
		},
		{
			name: "denied to a service that did not have it", references: both, why: reason.ConfigMissing, waits: true,
			state: configs.State{Last: entry(good), ReadAt: read, Failure: "denied", IsRefused: true},
		},
		{
			name: "too old for a service that did not have it", references: both, why: reason.ConfigStale, waits: true,
			state:  configs.State{Last: entry(good), ReadAt: now.Add(-2 * time.Hour), Failure: "away"},
			change: func(b *catalog.ConfigBackend) { b.Spec.MaxStale = time.Hour },
		},
		{
			name: "too old for others", references: both, given: old, want: map[string]string{"U": "u2", "P": "p2"},
			state:  configs.State{Last: entry(good), ReadAt: now.Add(-2 * time.Hour), Failure: "away"},
			change: func(b *catalog.ConfigBackend) { b.Spec.MaxStale = time.Hour },
		},
		{
			name: "closed", references: both, given: old, want: old, why: reason.ConfigMissing, state: configs.State{Last: entry(good), ReadAt: read},
			change: func(b *catalog.ConfigBackend) { b.Spec.Projects = []string{"other"} },
		},
		{
			name: "path not allowed", references: both, why: reason.ConfigMissing, waits: true, state: configs.State{Last: entry(good), ReadAt: read},
			change: func(b *catalog.ConfigBackend) { b.Spec.AllowedPaths = []string{"app/**"} },
		},
		{name: "may be missing", references: optional, want: map[string]string{"P": "p2"}, state: configs.State{Last: entry(good), ReadAt: read}},
		{
			name: "may be missing, and so is the entry", references: map[string]string{"O": "v://app#more?"},
			state: configs.State{Failure: "absent", IsRefused: true, IsAbsent: true},
		},
		{
			name: "may be missing, and is denied", references: map[string]string{"O": "v://app#more?"}, why: reason.ConfigMissing, waits: true,
			state: configs.State{Failure: "denied", IsRefused: true},
		},
		{
			name: "may be missing, and nobody knows", references: map[string]string{"O": "v://app#more?"}, why: reason.ConfigMissing, waits: true,
		},
		{
			name: "too long", references: map[string]string{"P": password}, given: map[string]string{"P": "p1"}, want: map[string]string{"P": "p1"}, why: reason.ConfigMissing,
			state: configs.State{Last: entry(map[string]string{"password": strings.Repeat("x", 65<<10)}), ReadAt: read},
		},
		{
			name: "whole entry", references: map[string]string{"ALL": "v://app"}, want: map[string]string{"ALL": `{"password":"p2","user":"u2"}`},
			state: configs.State{Last: entry(good), ReadAt: read},
		},
	} {
		backend := &catalog.ConfigBackend{Spec: catalog.ConfigBackendSpec{AllowedPaths: []string{"*"}, Projects: []string{"default"}}}
		if test.change != nil {
			test.change(backend)
		}
		out := configs.Resolve(configs.Request{
			References: test.references, Project: "default", Backends: map[string]*catalog.ConfigBackend{"v": backend},
			Entries: map[configs.Place]configs.State{{Backend: "v", Path: "app"}: test.state}, Given: given(test.references, test.given), Now: now,
		})
		why := reason.Reason(0)
		if out.Problem != nil {
			why = out.Problem.Reason
		}
		if why != test.why || out.Waits != test.waits || len(out.Values) != len(test.want) {
			t.Errorf("%s: got %v, waits %v and %d values, want %v, %v and %d", test.name, out.Problem, out.Waits, len(out.Values), test.why, test.waits, len(test.want))
		}
		for key, want := range test.want {
			if out.Values[key].Text.Reveal() != want || out.Values[key].Reference != test.references[key] {
				t.Errorf("%s: %s: got another value than wanted", test.name, key)
			}
		}
		if out.Waits && out.Problem == nil {
			t.Errorf("%s: the service waits without a reason", test.name)
		}
	}
}

// TestResolveForAnotherReference gives nothing that was obtained by another reference.
func TestResolveForAnotherReference(t *testing.T) {
	t.Parallel()
	out := configs.Resolve(configs.Request{
		References: map[string]string{"P": "gone://app#password"}, Project: "default",
		Given: map[string]configs.Value{"P": {Reference: password, Text: "p1"}}, Now: now,
	})
	if len(out.Values) != 0 || !out.Waits {
		t.Errorf("got %d values, waits %v, want to wait without any", len(out.Values), out.Waits)
	}
}

// TestBounds compares the bounds of hubs and of agents.
func TestBounds(t *testing.T) {
	t.Parallel()
	if catalog.MaxConfigBytes != configref.MaxBytes {
		t.Errorf("the hub allows %d bytes, and agents %d", catalog.MaxConfigBytes, configref.MaxBytes)
	}
	for more, isAllowed := range []bool{true, false} {
		if err := catalog.CheckConfigValue("K", strings.Repeat("x", configref.MaxValueBytes+more)); (err == nil) != isAllowed {
			t.Errorf("%d bytes more than agents allow: got %v", more, err)
		}
	}
}
