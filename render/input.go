// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"

	"github.com/leatdev/leat/internal/contract/renderstep"
)

// inputHead is an Input without its files and its service.
type inputHead struct {
	Folder    string            `json:"folder,omitempty"`
	Except    string            `json:"except,omitempty"`
	Steps     []renderstep.Step `json:"steps"`
	Config    bool              `json:"config,omitempty"` // there is a configuration
	Values    map[string]string `json:"values,omitempty"`
	Secrets   map[string]string `json:"secrets,omitempty"`
	Facts     Facts             `json:"facts"`
	Installed bool              `json:"installed,omitempty"`
	Generated Generated         `json:"generated,omitempty"`
	Lookups   []Lookup          `json:"lookups,omitempty"`
	IsPart    bool              `json:"part,omitempty"`
}

// maxInputHead bounds the bytes of an encoded Input without its files: steps, configuration, facts
// with the cluster's API versions, generated values and lookups.
const maxInputHead = 16 << 20

// Encode writes the input for DecodeInput. Equal inputs yield equal bytes.
func (in Input) Encode(w io.Writer) error {
	text, err := json.Marshal(in.head())
	if err != nil {
		return fmt.Errorf("encode input: %w", err)
	}
	if len(text) > maxInputHead {
		return exceeded(LimitBytes, "configuration, facts and looked-up objects have more than %s", sizeText(maxInputHead))
	}
	if err := put(w, text); err != nil {
		return err
	}
	return in.Files.Encode(w)
}

func (in Input) head() inputHead {
	head := inputHead{
		Folder: in.Folder, Except: in.Except, Steps: in.Steps, Facts: in.Facts,
		Installed: in.Installed, Generated: in.Generated, Lookups: in.Lookups, IsPart: in.IsPart,
	}
	if in.Variables != nil {
		head.Config, head.Values, head.Secrets = true, in.Variables.Values, in.Variables.Secrets
	}
	return head
}

// DecodeInput reads what Encode writes, and not a byte more.
func DecodeInput(r *bufio.Reader, limits Limits) (Input, error) {
	text, err := take(r, maxInputHead)
	if err != nil {
		return Input{}, err
	}
	var head inputHead
	if err := json.Unmarshal(text, &head); err != nil {
		return Input{}, fmt.Errorf("decode input: %w", err)
	}
	in := Input{
		Folder: head.Folder, Except: head.Except, Steps: head.Steps, Facts: head.Facts,
		Installed: head.Installed, Generated: head.Generated, Lookups: head.Lookups, IsPart: head.IsPart,
	}
	if head.Config {
		in.Variables = &Variables{Values: head.Values, Secrets: head.Secrets}
	}
	in.Files, err = DecodeFiles(r, limits)
	return in, err
}

// key is the SHA-256 of an input. It does not cover the engine and its limits, which do not change
// during the life of the process.
type key [sha256.Size]byte

// key returns the key of a render's inputs that asks for those facts. The sum covers the files.
func (in Input) key(files [sha256.Size]byte, asked Asked) (k key) {
	if !asked.Facts {
		in.Facts.Cluster, in.Facts.Sources = ClusterFacts{APIVersions: in.Facts.Cluster.APIVersions}, nil
	}
	if !asked.APIVersions {
		in.Facts.Cluster.APIVersions = nil
	}
	if !asked.Lookups {
		in.Lookups = nil
	}
	sum := sha256.New()
	_, _ = sum.Write(files[:]) // a hash never fails
	text, _ := json.Marshal(in.head())
	_, _ = sum.Write(text)
	sum.Sum(k[:0])
	return k
}

func (f *Files) sum() (sum [sha256.Size]byte, err error) {
	hash := sha256.New()
	err = f.Encode(hash)
	hash.Sum(sum[:0])
	return sum, err
}
