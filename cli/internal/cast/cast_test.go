// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package cast_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatdev/leat/cli/internal/cast"
)

const recording = `{"version":2,"width":80,"height":24}
[1,"o","one "]
[2,"i","secret"]
[3,"r","120x40"]
[101,"o","two"]
`

func TestPlayKeepsTime(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		opts cast.Options
		want time.Duration
	}{
		{cast.Options{}, 101 * time.Second},
		{cast.Options{Speed: 2}, 50500 * time.Millisecond},
		{cast.Options{IdleLimit: 2 * time.Second}, 3 * time.Second},
		{cast.Options{IdleLimit: 2 * time.Second, Speed: 2}, 1500 * time.Millisecond},
		{cast.Options{Raw: true}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out strings.Builder
			began := time.Now()
			if err := cast.Play(t.Context(), &out, strings.NewReader(recording), tc.opts); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(began); got != tc.want || out.String() != "one two" {
				t.Errorf("%+v: got %q in %s, want the output alone in %s", tc.opts, out.String(), got, tc.want)
			}
		})
	}
}

func TestPlayEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := cast.Play(ctx, new(strings.Builder), strings.NewReader(recording), cast.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want canceled", err)
	}
}

func TestPlayOfOtherFiles(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "empty", "hello\n": "not a recording", `{"version":1}`: "not a recording",
		`{"version":2}` + "\n[1]\n[1,\"o\",\"x\"]\n":       "line 2",
		`{"version":2}` + "\n[1,2,\"x\"]\n[1,\"o\",\"x\"]": "line 2",
	} {
		err := cast.Play(t.Context(), new(strings.Builder), strings.NewReader(text), cast.Options{Raw: true})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
	var out strings.Builder
	if err := cast.Play(t.Context(), &out, strings.NewReader(recording+`[102,"o","cut`), cast.Options{Raw: true}); err != nil || out.String() != "one two" {
		t.Errorf("got %q, %v, want the complete lines", out.String(), err)
	}
}
