// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package schema compares values with JSON Schemas that committers write: the parameters of a
// service with the schema beside its manifests, and the values of a chart with the chart's.
//
// No schema is fetched: a schema can refer to itself only. A small schema can take as long as its
// author likes to evaluate, because references multiply. Hostile schemas therefore belong into a
// process that is limited from outside, as hostile templates do.
package schema

import (
	"bytes"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// base is the base of references inside a schema. No URL but this one is loaded.
const base = "file:///"

// Compile reads the schema of a file. The hint completes the error about a reference to another
// file: "put the definitions into the schema".
func Compile(file string, text []byte, hint string) (*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(refusal{hint: hint})
	if err := compiler.AddResource(base+file, document); err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	compiled, err := compiler.Compile(base + file)
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	return compiled, nil
}

// refusal loads no schema. The library would read files of this machine.
type refusal struct{ hint string }

// Load implements jsonschema.URLLoader.
func (r refusal) Load(url string) (any, error) {
	return nil, fmt.Errorf("refers to %s, and schemas are not fetched; %s", url, r.hint)
}
