// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package sops_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/leatdev/leat/render/sops"
)

// identity and recipient are a key pair for tests alone.
const (
	identity  = "AGE-SECRET-KEY-1AC3FHNUDZ7T7LVFN2X240TLCRA0NUCM0TE9XDJE3Y4Z0EA9LKAGQ04MJRH"
	recipient = "age12ys3luzsaedzkygxk9keq63l7vl8gh8x7zenhn07hk8x4um66fgscj8h04"
)

// encryption is a plain file of testdata, and how sops encrypts it.
type encryption struct {
	name   string
	args   []string // of sops encrypt
	json   bool
	config bool // testdata has a .sops.yaml for it
}

func cases() []encryption {
	return []encryption{
		{name: "data", args: []string{"--encrypted-regex", "^(data|stringData)$"}},
		{name: "types", args: []string{"--encrypted-regex", "^(spec)$"}},
		{name: "mac-only", config: true},
		{name: "several", args: []string{"--encrypted-regex", "^(data|stringData)$"}},
		{name: "suffix", args: []string{"--encrypted-suffix", "_secret"}},
		{name: "unencrypted-regex", args: []string{"--unencrypted-regex", "^(apiVersion|kind|metadata|type)$"}},
		{name: "json", args: []string{"--encrypted-regex", "^(data|stringData)$"}, json: true},
	}
}

func (c encryption) ext() string {
	if c.json {
		return "json"
	}
	return "yaml"
}

func (c encryption) encrypted() string { return filepath.Join("testdata", c.name+".enc."+c.ext()) }

func keys(t testing.TB) sops.Keys {
	t.Helper()
	all, err := sops.ParseKeys("# created: today\n# public key: " + recipient + "\n" + identity + "\n")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// documents reads manifests as the agent does.
func documents(t testing.TB, text []byte) (all []map[string]any) {
	t.Helper()
	for _, part := range strings.Split("\n"+string(text), "\n---\n") {
		encoded, err := yaml.YAMLToJSONStrict([]byte(part))
		if err != nil {
			t.Fatal(err)
		}
		var object map[string]any
		if err := utiljson.Unmarshal(encoded, &object); err != nil {
			t.Fatal(err)
		}
		if object != nil {
			all = append(all, object)
		}
	}
	return all
}

// check opens an encrypted file, and compares each object with the plain file.
func (c encryption) check(t *testing.T, encrypted []byte) {
	t.Helper()
	plain, err := os.ReadFile(filepath.Join("testdata", c.name+".plain."+c.ext()))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(encrypted, []byte("canary")) {
		t.Fatal("the encrypted file is not encrypted")
	}
	file, err := sops.OpenFile(encrypted, keys(t))
	if err != nil {
		t.Fatal(err)
	}
	want, got := documents(t, plain), documents(t, encrypted)
	opened := 0
	for _, object := range got {
		if mac, isEncrypted := sops.MACOf(object); isEncrypted && mac == file.MAC() {
			values, err := file.Fill(object)
			if err != nil {
				t.Fatal(err)
			}
			opened += len(values)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || opened == 0 {
		t.Errorf("opened %d values (-want +got):\n%s", opened, diff)
	}
}

// TestFilesOfSops opens files that sops v3.13.3 has written; TestSlowSopsItself compares with fresh
// ones.
func TestFilesOfSops(t *testing.T) {
	t.Parallel()
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			encrypted, err := os.ReadFile(c.encrypted())
			if err != nil {
				t.Fatal(err)
			}
			c.check(t, encrypted)
		})
	}
}
