// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/schema"
)

const shop = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "required": ["REGION", "REPLICAS"],
  "additionalProperties": false,
  "$defs": {"port": {"description": "A port\nof the host.", "type": "integer", "minimum": 1, "maximum": 65535, "default": 8080}},
  "properties": {
    "REGION": {"enum": ["eu", "us"]},
    "REPLICAS": {"type": "integer", "minimum": 1, "default": 2, "description": "How many pods."},
    "RATIO": {"type": "number", "exclusiveMaximum": 1},
    "DEBUG": {"type": "boolean"},
    "TAG": {"type": "string", "pattern": "^v[0-9.]+$"},
    "CODE": {"type": ["string", "integer"], "maxLength": 3},
    "PORT": {"$ref": "#/$defs/port"},
    "PASSWORD": {"type": "string", "minLength": 12}
  },
  "dependentRequired": {"DEBUG": ["TAG"]}
}`

// check returns the defects of the parameters: the failures between colon and semicolon.
func check(t *testing.T, text string, values, secrets map[string]string) string {
	t.Helper()
	err := schema.Parameters{}.CheckParameters(t.Context(), "deploy/leat.schema.json", []byte(text), &render.Variables{Values: values, Secrets: secrets})
	if err == nil {
		return ""
	}
	invalid, ok := errors.AsType[*render.Error](err)
	if !ok || invalid.Path != "deploy/leat.schema.json" {
		t.Fatalf("got %v, want an error of the file", err)
	}
	return strings.TrimSuffix(strings.TrimPrefix(invalid.Cause.Error(), "the service's parameters do not meet the schema: "), "; correct spec.config")
}

func TestParameters(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		values, secrets map[string]string
		want            string
	}{
		"good":             {values: map[string]string{"REGION": "eu", "REPLICAS": "3"}},
		"good secret":      {values: map[string]string{"REGION": "eu", "REPLICAS": "3"}, secrets: map[string]string{"PASSWORD": "twelve letters"}},
		"typed":            {values: map[string]string{"REGION": "eu", "REPLICAS": "1", "RATIO": "0.5", "DEBUG": "true", "TAG": "v1", "PORT": "80"}},
		"text or number":   {values: map[string]string{"REGION": "eu", "REPLICAS": "1", "CODE": "007"}},
		"missing":          {want: "REGION, REPLICAS: required"},
		"missing one":      {secrets: map[string]string{"REGION": "eu"}, want: "REPLICAS: required"},
		"together":         {values: map[string]string{"REGION": "eu", "REPLICAS": "1", "DEBUG": "false"}, want: "TAG: required with DEBUG"},
		"unknown":          {values: map[string]string{"REGION": "eu", "REPLICAS": "1", "REPLICA": "1"}, want: "REPLICA: not known to the schema"},
		"not a number":     {values: map[string]string{"REGION": "eu", "REPLICAS": "three"}, want: "REPLICAS: want integer"},
		"unusual spelling": {values: map[string]string{"REGION": "eu", "REPLICAS": "03"}, want: "REPLICAS: want integer"},
		"not a boolean":    {values: map[string]string{"REGION": "eu", "REPLICAS": "1", "DEBUG": "yes", "TAG": "v1"}, want: "DEBUG: want boolean"},
		"by reference":     {values: map[string]string{"REGION": "eu", "REPLICAS": "1", "PORT": "70000"}, want: "PORT: want at most 65535"},
		"several": {
			values:  map[string]string{"REGION": "asia", "REPLICAS": "0", "RATIO": "1.5", "TAG": "latest", "CODE": "0007"},
			secrets: map[string]string{"PASSWORD": "short"},
			want: "CODE: want at most 3 characters; PASSWORD: want at least 12 characters; RATIO: want less than 1; REGION: want one of eu, us; " +
				"REPLICAS: want at least 1; TAG: want a text that matches ^v[0-9.]+$",
		},
	} {
		if got := check(t, shop, test.values, test.secrets); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
	if err := (schema.Parameters{}).CheckParameters(t.Context(), "f", []byte(`{"required": ["A"]}`), nil); err == nil || !strings.Contains(err.Error(), "A: required") {
		t.Errorf("no configuration: got %v, want what is missing", err)
	}
}

// TestExample compares parameters with the example of docs/guides/rendering.md.
func TestExample(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/guides/rendering.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```json\n")
	example, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("docs/guides/rendering.md has no example of a schema")
	}
	secret := map[string]string{"DB_PASSWORD": "twelve letters"}
	if got := check(t, example, map[string]string{"REPLICAS": "3", "REGION": "us"}, secret); got != "" {
		t.Errorf("got %s, want parameters that meet the schema", got)
	}
	const want = "REGION: want one of eu, us; REPLICAS: want at most 20"
	if got := check(t, example, map[string]string{"REPLICAS": "30", "REGION": "asia"}, secret); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSchemasThatAreNone(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                       "read schema: ",
		"type: object":           "read schema: ",
		`{"type": "objekt"}`:     "read schema: ",
		`{"pattern": "("}`:       "read schema: ",
		`{"$ref": "#/$defs/no"}`: "read schema: ",
		`{} {}`:                  "read schema: ",
	} {
		if got := check(t, text, nil, nil); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %s…", text, got, want)
		}
	}
}

func TestFields(t *testing.T) {
	t.Parallel()
	got, err := schema.Fields("leat.schema.json", []byte(`{
  "required": ["image"],
  "$defs": {"port": {"description": "A port\nof the host.", "type": "integer", "default": 8080}, "loop": {"properties": {"loop": {"$ref": "#/$defs/loop"}}}},
  "properties": {
    "image": {"type": "object", "properties": {"tag": {"type": ["string", "null"]}}, "required": ["tag"]},
    "port": {"$ref": "#/$defs/port"},
    "any": true
  }
}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []schema.Field{
		{Path: []string{"any"}},
		{Path: []string{"image"}, Type: "object", IsRequired: true},
		{Path: []string{"image", "tag"}, Type: "null or string", IsRequired: true},
		{Path: []string{"port"}, Type: "integer", Default: "8080", Description: "A port of the host."},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

// TestSecFieldsOfASchemaAreBounded describes schemas that contain themselves, and multiply.
func TestSecFieldsOfASchemaAreBounded(t *testing.T) {
	t.Parallel()
	loop := `{"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"b": {"$ref": "#/$defs/a"}, "c": {"$ref": "#/$defs/a"}}}}}`
	got, err := schema.Fields("leat.schema.json", []byte(loop))
	if err != nil || len(got) != schema.MaxFields {
		t.Errorf("got %d fields, %v, want the limit of %d", len(got), err, schema.MaxFields)
	}
	for _, text := range []string{`{"$ref": "#"}`, `{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}`} {
		if got, err := schema.Fields("leat.schema.json", []byte(text)); err == nil && len(got) > 0 {
			t.Errorf("%s: got %d fields, %v", text, len(got), err)
		}
	}
}

// TestSecSchemasShowNoParameter makes each keyword fail at a secret.
func TestSecSchemasShowNoParameter(t *testing.T) {
	t.Parallel()
	const secret = "correct-horse-7351"
	for _, property := range []string{
		`{"type": "integer"}`, `{"type": "boolean"}`, `{"type": ["null", "array"]}`, `{"enum": ["a"]}`, `{"const": "a"}`, `{"pattern": "^a$"}`,
		`{"maxLength": 1}`, `{"minLength": 100}`, `false`, `{"not": {}}`, `{"anyOf": [{"const": "a"}, {"const": "b"}]}`,
		`{"oneOf": [true, true]}`, `{"allOf": [{"const": "a"}]}`, `{"if": true, "then": {"const": "a"}}`, `{"format": "date"}`,
	} {
		text := `{"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"PASSWORD": ` + property + `}}`
		got := check(t, text, nil, map[string]string{"PASSWORD": secret})
		if strings.Contains(got, secret) || strings.Contains(got, "7351") {
			t.Errorf("%s: %s shows the secret", property, got)
		}
		if got == "" {
			t.Errorf("%s: got no error, want one", property)
		}
	}
	number := check(t, `{"properties": {"PIN": {"type": "integer", "maximum": 5, "multipleOf": 2}}}`, nil, map[string]string{"PIN": "735173517351"})
	if strings.Contains(number, "7351") || !strings.Contains(number, "PIN: want at most 5") {
		t.Errorf("got %s, want no secret", number)
	}
}

// TestSecSchemasAreNotFetched refers to schemas elsewhere.
func TestSecSchemasAreNotFetched(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"$ref": "file:///etc/passwd"}`, `{"$ref": "other.json"}`, `{"$ref": "http://127.0.0.1:9/schema.json"}`,
		`{"$schema": "http://127.0.0.1:9/draft"}`, `{"properties": {"A": {"$dynamicRef": "http://127.0.0.1:9/x#y"}}}`,
	} {
		if got := check(t, text, nil, nil); !strings.Contains(got, "schemas are not fetched; put the definitions into the schema") {
			t.Errorf("%s: got %q, want it refused", text, got)
		}
	}
}
