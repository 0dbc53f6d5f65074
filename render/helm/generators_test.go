// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package helm_test

import (
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/render"
)

// generate renders a chart that has generated values before, and returns the data of its objects by
// their names.
func generate(t *testing.T, files map[string]string, before render.Generated) (map[string]any, render.Generated) {
	t.Helper()
	out, err := renderChart(t, chartOf(files), render.Input{Generated: before})
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]any{}
	for _, o := range out.Objects {
		made[o.GetName()] = o.Object["data"]
	}
	return made, out.Generated
}

// every is the data of an object that calls every function whose result is not always the same.
const every = `"{{ randAlphaNum 8 }} {{ randAlphaNum 8 }} {{ randAlpha 4 }} {{ randNumeric 4 }} {{ randAscii 4 | b64enc }} {{ randBytes 4 }} {{ randInt 1 1000000 }} {{ uuidv4 }}` +
	` {{ shuffle "abcdefghijkl" }} {{ htpasswd "u" "p" }} {{ bcrypt "p" }} {{ encryptAES "0123456789abcdef" "x" }} {{ now }} {{ now | unixEpoch }} {{ genPrivateKey "ed25519" | b64enc }}"`

// TestGeneratedValuesStay renders a chart a hundred times: nothing changes. Without what was
// generated before, everything does.
func TestGeneratedValuesStay(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"templates/a.yaml": manifest("a", every), "templates/b.yaml": "{{- $x := uuidv4 -}}\n" + manifest("b", "{{ $x }}") + "  c: {{ include \"a/templates/c.tpl\" . }}\n",
		"templates/_h.tpl": `{{ define "a/templates/c.tpl" }}{{ randAlphaNum 10 | quote }}{{ end }}`,
	}
	first, memo := generate(t, files, nil)
	for i := range 100 {
		again, made := generate(t, files, memo)
		if diff := gocmp.Diff(first, again); diff != "" {
			t.Fatalf("render %d:\n%s", i, diff)
		}
		if diff := gocmp.Diff(memo, made); diff != "" {
			t.Fatalf("memo of render %d:\n%s", i, diff)
		}
	}
	lost, _ := generate(t, files, nil)
	if gocmp.Equal(first["a"], lost["a"]) || gocmp.Equal(first["b"], lost["b"]) {
		t.Error("values without a memo are those of before")
	}
}

// TestGeneratedValuesHaveTheirPlace changes a chart: only values that are generated in the changed
// place change.
func TestGeneratedValuesHaveTheirPlace(t *testing.T) {
	t.Parallel()
	files := map[string]string{"templates/b.yaml": manifest("b", "{{ randAlphaNum 8 }}"), "templates/d.yaml": manifest("d", "{{ randAlphaNum 8 }}")}
	first, memo := generate(t, files, nil)
	files["templates/a.yaml"], files["templates/c.yaml"] = manifest("a", "{{ randAlphaNum 8 }}"), manifest("c", "{{ uuidv4 }}")
	more, memo := generate(t, files, memo)
	if !gocmp.Equal(first["b"], more["b"]) || !gocmp.Equal(first["d"], more["d"]) || gocmp.Equal(more["a"], more["b"]) {
		t.Errorf("templates beside others: got %v, had %v", more, first)
	}
	files["templates/b.yaml"] = manifest("b", "{{ randAlphaNum 9 }}")
	changed, memo := generate(t, files, memo)
	if gocmp.Equal(more["b"], changed["b"]) || !gocmp.Equal(more["a"], changed["a"]) || !gocmp.Equal(more["c"], changed["c"]) || !gocmp.Equal(more["d"], changed["d"]) {
		t.Errorf("another argument: got %v, had %v", changed, more)
	}
	delete(files, "templates/b.yaml")
	_, memo = generate(t, files, memo)
	for place := range memo {
		if strings.Contains(place, "b.yaml") {
			t.Errorf("%s is remembered after its template is gone", place)
		}
	}
}

// TestGeneratedValuesOfAliases renders one dependency under two names: each has values of its own,
// and keeps them when the other goes.
func TestGeneratedValuesOfAliases(t *testing.T) {
	t.Parallel()
	chart := func(aliases ...string) map[string]string {
		text := "apiVersion: v2\nname: a\nversion: 1.0.0\ndependencies:\n"
		for _, alias := range aliases {
			text += "- {name: sub, version: 1.0.0, alias: " + alias + "}\n"
		}
		return map[string]string{
			"Chart.yaml": text, "charts/sub/Chart.yaml": "{apiVersion: v2, name: sub, version: 1.0.0}",
			"charts/sub/templates/a.yaml": manifest("{{ .Chart.Name }}", "{{ randAlphaNum 8 }}"),
		}
	}
	both, memo := generate(t, chart("one", "two"), nil)
	if len(both) != 2 || gocmp.Equal(both["one"], both["two"]) {
		t.Errorf("got %v, want two values", both)
	}
	two, _ := generate(t, chart("two"), memo)
	if !gocmp.Equal(both["two"], two["two"]) {
		t.Errorf("got %v, had %v", two, both)
	}
}

// TestGeneratedCertificates signs a certificate by an authority in several renders: it stays valid.
func TestGeneratedCertificates(t *testing.T) {
	t.Parallel()
	files := map[string]string{"templates/a.yaml": "{{ $ca := genCA \"authority\" 365 }}{{ $c := genSignedCert \"web\" (list \"10.0.0.1\") (list \"web.apps\") 365 $ca }}\n" +
		manifest("a", "x") + "  ca: {{ $ca.Cert | quote }}\n  cert: {{ $c.Cert | quote }}\n  key: {{ $c.Key | quote }}\n"}
	first, memo := generate(t, files, nil)
	files["templates/0.yaml"] = manifest("other", "{{ (genSelfSignedCert \"x\" nil nil 1).Cert | quote }}")
	again, _ := generate(t, files, memo)
	if !gocmp.Equal(first["a"], again["a"]) {
		t.Error("the certificate changed with another template")
	}
	data := again["a"].(map[string]any)
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM([]byte(data["ca"].(string))) {
		t.Fatal("no authority")
	}
	block, _ := pem.Decode([]byte(data["cert"].(string)))
	if block == nil {
		t.Fatal("no certificate")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cert.Verify(x509.VerifyOptions{Roots: authorities, DNSName: "web.apps"}); err != nil {
		t.Error(err)
	}
}
