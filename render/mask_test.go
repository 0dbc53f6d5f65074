// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/leatdev/leat/internal/testkit/canarytest"
	"github.com/leatdev/leat/render"
)

func TestMask(t *testing.T) {
	t.Parallel()
	s := render.NewSubstitution(render.Variables{
		Values: map[string]string{"HOST": "example.test"},
		Secrets: map[string]string{
			"PASSWORD": "hunter2", "LONGER": "hunter2hunter2", "EMPTY": "", "SHORT": "p", "PIN": "a-1", "KEY": "-----BEGIN KEY-----\nMIIBVgIBADANBgkq\n}\n",
		},
	})
	for text, want := range map[string]string{
		"password hunter2 at example.test": "password (masked) at example.test",
		"hunter2hunter2hunter2":            "(masked)(masked)",
		"MIIBVgIBADANBgkq\n}\nend":         "(masked)\n}\nend",
		"nothing":                          "nothing",
		"templates/p.yaml: port p of 8p":   "templates/(masked).yaml: port (masked) of 8p",
		"pin a-1, not ba-1 nor a-12":       "pin (masked), not ba-1 nor a-12",
	} {
		if got := s.Mask(text); got != want {
			t.Errorf("mask %q: got %q, want %q", text, got, want)
		}
	}
	if got := (*render.Substitution)(nil).Mask("as it is"); got != "as it is" {
		t.Errorf("without a configuration: got %q", got)
	}
}

// TestSecMaskKnowsEncodings masks a secret as templates, encoders and errors write it.
func TestSecMaskKnowsEncodings(t *testing.T) {
	t.Parallel()
	set := &canarytest.Set{}
	secret := set.Plant("a configuration")
	s := render.NewSubstitution(render.Variables{Secrets: map[string]string{"PASSWORD": secret}})
	inHTML, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	var raw strings.Builder
	encoder := json.NewEncoder(&raw)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(secret); err != nil {
		t.Fatal(err)
	}
	texts := []string{
		secret, string(inHTML), raw.String(), fmt.Sprintf("%q %+q", secret, secret), url.QueryEscape(secret), url.PathEscape(secret), fmt.Sprintf("%x", secret),
	}
	for offset := range 4 {
		text := []byte(strings.Repeat("u", offset) + secret + strings.Repeat("v", offset))
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
			texts = append(texts, "Basic "+encoding.EncodeToString(text)+", twice: "+encoding.EncodeToString(text))
		}
	}
	for _, text := range texts {
		if len(set.Find(text)) == 0 || !s.Reveals(text) {
			t.Errorf("found no secret in %q", text)
		}
		if got := s.Mask(text); len(set.Find(got)) > 0 || !strings.Contains(got, "(masked)") {
			t.Errorf("got %q of %q, want it masked", got, text)
		}
	}
	if got := s.Mask("Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+secret)) + " end"); got != "Basic (masked) end" {
		t.Errorf("got %q, want the whole header masked", got)
	}
}
