// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package attestation

import (
	"errors"
	"io"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// MaxProvenance bounds a provenance file: it holds a Chart.yaml and a few sums.
const MaxProvenance = 256 << 10

// Archive is the archive of a chart, as it was found.
type Archive struct {
	Chart string
	// Version is the chart's. Empty: not known, so that any is taken.
	Version string
	// Digest is the SHA-256 of the archive. Empty: not known yet.
	Digest string
	// File is the last part of the archive's address. Empty: there is none.
	File string
}

// Provenance is the verified content of an archive's provenance file.
type Provenance struct{ Version, Digest string }

// VerifyProvenance verifies a provenance file of Helm (`helm package --sign`): a message that one of
// the policy's keys clear-signed, with the chart's name and version, and the sum of its archive. The
// error is a *signers.RejectedError.
func (p *Policy) VerifyProvenance(a Archive, message []byte, now time.Time) (Provenance, error) {
	if len(message) > MaxProvenance {
		return Provenance{}, rejected("has a provenance file of more than %d bytes", MaxProvenance)
	}
	text, err := p.provenance.VerifyClearsigned(message, now)
	if err != nil {
		return Provenance{}, err
	}
	claim, err := readClaim(string(text))
	if err != nil {
		return Provenance{}, rejected("has a provenance file %v", err)
	}
	switch {
	case claim.Name != a.Chart:
		return Provenance{}, rejected("has a provenance file of the chart %.80q", claim.Name)
	case claim.Version == "", a.Version != "" && claim.Version != a.Version:
		return Provenance{}, rejected("has a provenance file of the version %.80q", claim.Version)
	}
	for _, file := range []string{a.File, claim.Name + "-" + claim.Version + ".tgz"} {
		sum, isSum := strings.CutPrefix(claim.sums.Files[file], digestName+":")
		switch {
		case file == "" || !isSum:
			continue
		case !isDigest(sum) || a.Digest != "" && sum != a.Digest:
			return Provenance{}, rejected("has a provenance file that names another archive, with the digest %.80s", sum)
		}
		return Provenance{Version: claim.Version, Digest: sum}, nil
	}
	return Provenance{}, rejected("has a provenance file without the SHA-256 of %s", claim.Name+"-"+claim.Version+".tgz")
}

// isDigest reports whether text has the digits of a SHA-256.
func isDigest(text string) bool {
	const digits = 64
	return len(text) == digits && strings.Trim(text, "0123456789abcdef") == ""
}

// claim is the content of the signed text of a provenance file.
type claim struct {
	Name    string `yaml:"name"`
	Version string `yaml:"version"`
	sums    struct {
		Files map[string]string `yaml:"files"` // sums by name
	}
}

// claimSeparator separates metadata and sums, as Helm writes them and reads them.
const claimSeparator = "\n...\n"

// readClaim reads two YAML documents: the chart's metadata, and the sums of its files. A text that
// could be read in two ways is refused.
func readClaim(text string) (claim, error) {
	var c claim
	metadata, sums, isWhole := strings.Cut(text, claimSeparator)
	if !isWhole || strings.Contains(sums, claimSeparator) || readDocument(metadata, &c) != nil || readDocument(sums, &c.sums) != nil {
		return claim{}, errors.New("that is not as Helm writes it: metadata and sums, in YAML")
	}
	return c, nil
}

// readDocument reads a text that is one YAML document.
func readDocument(text string, into any) error {
	documents := yaml.NewDecoder(strings.NewReader(text))
	if err := documents.Decode(into); err != nil {
		return err
	}
	var rest any
	if err := documents.Decode(&rest); !errors.Is(err, io.EOF) {
		return errors.New("more than one document")
	}
	return nil
}
