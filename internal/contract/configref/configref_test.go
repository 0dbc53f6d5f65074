// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package configref_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/internal/contract/configref"
	"github.com/leatdev/leat/internal/kit/secret"
)

type (
	texts   = map[string]string
	refusal = configref.Refusal
)

// referenceOf reads FIELD or FIELD?, which may be missing.
func referenceOf(text string) configref.Reference {
	r := configref.Reference{Text: text, Field: text}
	if last := len(text) - 1; last >= 0 && text[last] == '?' {
		r.Field, r.IsOptional = text[:last], true
	}
	return r
}

// TestResolve has references to the fields of one source, by key. had are values by key with a prefix
// old: of a reference that has changed since.
func TestResolve(t *testing.T) {
	t.Parallel()
	both, good := texts{"U": "user", "P": "password"}, texts{"user": "u2", "password": "p2"}
	old := texts{"U": "u1", "P": "p1"}
	none, absent := &refusal{Text: "denied"}, &refusal{Text: "absent", IsAbsent: true}
	for _, test := range []struct {
		name               string
		references         texts
		had                texts
		others             texts // given before for other references
		fields             texts
		refusal, late      *refusal
		isAbsent           bool // a field that is missing satisfies references that may be missing
		tooLong            string
		want               texts
		kept, lacking, why string
	}{
		{name: "new", references: both, fields: good, want: good},
		{name: "changed", references: both, had: old, fields: good, want: good},
		{name: "refused", references: both, had: old, refusal: none, want: old, kept: "PU", why: "denied"},
		{name: "refused, never had", references: both, refusal: none, lacking: "PU", why: "denied"},
		{name: "refused, one is new", references: both, had: texts{"P": "p1"}, refusal: none, want: texts{"P": "p1"}, kept: "P", lacking: "U", why: "denied"},
		{name: "a field is gone: no mixture", references: both, had: old, fields: texts{"user": "u2"}, want: old, kept: "PU", why: "no password"},
		{
			name: "a field is not there, and one is new", references: both, had: texts{"U": "u1"}, fields: texts{"user": "u2"},
			want: texts{"U": "u1"}, kept: "U", lacking: "P", why: "no password",
		},
		{name: "a field is not allowed", references: both, had: old, fields: good, tooLong: "password", want: old, kept: "PU", why: "too long"},
		{name: "given for another reference", references: both, others: old, refusal: none, lacking: "PU", why: "denied"},
		{name: "late", references: both, fields: good, late: none, lacking: "PU", why: "denied"},
		{name: "late for one", references: both, had: texts{"P": "p1"}, fields: good, late: none, want: texts{"P": "p1"}, kept: "P", lacking: "U", why: "denied"},
		{name: "late, and had", references: both, had: old, fields: good, late: none, want: good},
		{name: "may be missing", references: texts{"P": "password", "O": "more?"}, fields: good, want: texts{"P": "p2"}},
		{name: "may be missing, and is not", references: texts{"O": "password?"}, fields: good, want: texts{"O": "p2"}},
		{name: "may be missing, and had", references: texts{"O": "more?"}, had: texts{"O": "o1"}, fields: good, want: texts{"O": "o1"}, kept: "O", why: "no more"},
		{name: "may be missing, and another reference had", references: texts{"P": "password", "O": "more?"}, others: texts{"O": "o1"}, fields: good, want: texts{"P": "p2"}},
		{name: "may be missing, and so is the source", references: texts{"O": "more?"}, refusal: absent, why: "absent"},
		{name: "the source is missing, and one may not be", references: texts{"P": "password", "O": "more?"}, refusal: absent, lacking: "P", why: "absent"},
		{name: "may be missing, and is refused", references: texts{"O": "more?"}, refusal: none, lacking: "O", why: "denied"},
		{
			name: "may be missing, beside one that is", references: texts{"P": "password", "O": "more?"}, had: texts{"P": "p1"}, fields: texts{},
			want: texts{"P": "p1"}, kept: "P", lacking: "O", why: "no password",
		},
		{
			name: "may be missing where fields may, beside one that is", references: texts{"P": "password", "O": "more?"}, had: texts{"P": "p1"},
			fields: texts{}, isAbsent: true, want: texts{"P": "p1"}, kept: "P", why: "no password",
		},
		{name: "may be missing, and is not allowed", references: texts{"O": "password?"}, fields: good, tooLong: "password", lacking: "O", why: "too long"},
		{name: "no references", fields: good, want: texts{}},
	} {
		references, had := map[string]configref.Reference{}, map[string]configref.Value[secret.Text]{}
		for key, text := range test.references {
			references[key] = referenceOf(text)
		}
		for key, text := range test.had {
			had[key] = configref.Value[secret.Text]{Reference: test.references[key], Text: secret.Text(text)}
		}
		for key, text := range test.others {
			had[key] = configref.Value[secret.Text]{Reference: "another", Text: secret.Text(text)}
		}
		source := configref.Source[secret.Text]{Refusal: test.refusal, Late: test.late, Value: func(_ string, r configref.Reference) (secret.Text, *refusal) {
			text, ok := configref.Field(test.fields, r.Field)
			switch {
			case !ok:
				return "", &refusal{Text: "no " + r.Field, IsOfField: true, IsAbsent: test.isAbsent}
			case r.Field == test.tooLong:
				return "", &refusal{Text: "too long"}
			}
			return secret.Text(text), nil
		}}
		out := configref.Resolve(references, source, had)
		got := texts{}
		for key, value := range out.Values {
			if value.Reference != test.references[key] {
				t.Errorf("%s: %s is given by %q", test.name, key, value.Reference)
			}
			got[key] = value.Text.Reveal()
		}
		want := texts{}
		for key, text := range test.want {
			if _, isKey := test.references[key]; !isKey { // good has the names of fields
				key = map[string]string{"user": "U", "password": "P"}[key]
			}
			want[key] = text
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: given (-want +got):\n%s", test.name, diff)
		}
		why := ""
		if out.Why != nil {
			why = out.Why.Text
		}
		if joined(out.Kept) != test.kept || joined(out.Lacking) != test.lacking || why != test.why {
			t.Errorf("%s: got kept %v, lacking %v and %q, want %q, %q and %q", test.name, out.Kept, out.Lacking, why, test.kept, test.lacking, test.why)
		}
	}
}

func joined(keys []string) (all string) {
	for _, key := range keys {
		all += key
	}
	return all
}

func TestField(t *testing.T) {
	t.Parallel()
	fields := map[string]secret.Text{"user": "u", "line": "a\n\"<"}
	if text, ok := configref.Field(fields, "user"); !ok || text != "u" {
		t.Errorf("got %t for a field", ok)
	}
	if _, ok := configref.Field(fields, "none"); ok {
		t.Error("a field that does not exist has a value")
	}
	text, ok := configref.Field(fields, "")
	if want := `{"line":"a\n\"\u003c","user":"u"}`; !ok || text.Reveal() != want {
		t.Errorf("got another text for all fields, want %s", want)
	}
}

// TestValuesAreStored compares the JSON that earlier versions of hubs and agents have stored.
func TestValuesAreStored(t *testing.T) {
	t.Parallel()
	for want, value := range map[string]configref.Value[string]{
		`{"reference":"vault://app#p","text":"x"}`:              {Reference: "vault://app#p", Text: "x"},
		`{"reference":"vault://app#p","text":"","public":true}`: {Reference: "vault://app#p", IsPublic: true},
	} {
		if got, err := json.Marshal(value); err != nil || string(got) != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
	if n := configref.Bytes(map[string]configref.Value[string]{"AB": {Text: "xyz"}, "C": {Text: "1"}}); n != 7 {
		t.Errorf("got %d bytes, want 7", n)
	}
}
