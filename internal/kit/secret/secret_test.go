// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package secret_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/kit/secret"
)

func TestTextIsNeverPrinted(t *testing.T) {
	t.Parallel()
	text := secret.Text("hunter2")
	holder := struct {
		T secret.Text
		P *secret.Text
	}{text, &text}
	encoded, err := json.Marshal(holder)
	if err != nil {
		t.Fatal(err)
	}
	var logged strings.Builder
	for _, handler := range []slog.Handler{slog.NewTextHandler(&logged, nil), slog.NewJSONHandler(&logged, nil)} {
		slog.New(handler).InfoContext(t.Context(), "x", slog.Any("text", text), slog.Any("pointer", &text), slog.Any("holder", holder))
	}
	for _, printed := range []string{
		text.String(), fmt.Sprint(text, &text, holder), fmt.Sprintf("%v %+v %#v %s %q %x %X %d", text, text, text, text, text, text, text, text),
		fmt.Sprintf("%+v %#v %x", holder, holder, holder), string(encoded), logged.String(),
	} {
		if strings.Contains(printed, "hunter2") || strings.Contains(strings.ToLower(printed), "68756e746572") {
			t.Errorf("got %q, want the text redacted", printed)
		}
	}
}

// TestTextIsRead decodes what another encoder wrote.
func TestTextIsRead(t *testing.T) {
	t.Parallel()
	var read struct {
		T secret.Text `json:"t,omitempty"`
	}
	if encoded, err := json.Marshal(read); err != nil || string(encoded) != "{}" {
		t.Errorf("got %s, %v, want an empty text left out", encoded, err)
	}
	if err := json.Unmarshal([]byte(`{"t":"hunter2"}`), &read); err != nil || read.T.Reveal() != "hunter2" {
		t.Errorf("got %q, %v, want the text", read.T.Reveal(), err)
	}
}
