// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package syncpolicy

import (
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/leatdev/leat/internal/kit/fielderr"
)

const (
	maxText   = 253
	maxLabel  = 63
	maxFolder = 4096
	maxPath   = 1024
)

var (
	dnsLabel  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	dnsDomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	// namedItem is a token that stands for an item of a list.
	namedItem = regexp.MustCompile(`^\[[^\[\]=]+=[^\[\]]+\]$`)
)

// validateText checks a name or a pattern of names; both are of whatever letters Kubernetes, or a
// field manager, likes.
func validateText(path, text string) error {
	switch {
	case len(text) > maxText:
		return fielderr.New(path, "has %d bytes; at most %d are allowed", len(text), maxText)
	case strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) || unicode.IsSpace(r) && r != ' ' || r == unicode.ReplacementChar
	}):
		return fielderr.New(path, "%q holds characters that no name holds", text)
	}
	return nil
}

func required(path, text string) error {
	if text == "" {
		return fielderr.New(path, "is required")
	}
	return validateText(path, text)
}

func validateLabel(path, name string) error {
	if len(name) > maxLabel || !dnsLabel.MatchString(name) {
		return fielderr.New(path, "%q is not a DNS label: use lower-case letters, digits and '-', with a letter or digit at both ends", name)
	}
	return nil
}

func validateLabels(path, selector string) error {
	if _, err := labels.Parse(selector); err != nil {
		return fielderr.New(path, "%q is not a label selector such as app=web,tier!=cache", selector)
	}
	return nil
}

func validateVersion(path, version string) error {
	if err := required(path, version); err != nil {
		return err
	}
	if parsed, err := schema.ParseGroupVersion(version); err != nil || parsed.Version == "" {
		return fielderr.New(path, "%q is not an API version such as apps/v1", version)
	}
	return nil
}

// validateAccount checks "name" or "namespace/name".
func validateAccount(path, account string) error {
	if account == "" {
		return nil
	}
	namespace, name, qualified := strings.Cut(account, "/")
	if !qualified {
		namespace, name = "", account
	}
	if qualified && (len(namespace) > maxLabel || !dnsLabel.MatchString(namespace)) || len(name) > maxText || !dnsDomain.MatchString(name) {
		return fielderr.New(path, "%q is not a service account: write name, or namespace/name", account)
	}
	return nil
}

// validateService checks the name of a port of a service in the cluster. It accepts the one spelling
// that the list of an agent has, too: no port names, no leading zeros.
func validateService(path, text string) error {
	if text == "" {
		return nil
	}
	namespace, rest, _ := strings.Cut(text, "/")
	name, port, _ := strings.Cut(strings.TrimPrefix(rest, "https:"), ":")
	number, err := strconv.ParseUint(port, 10, 16)
	if !isLabel(namespace) || !isLabel(name) || err != nil || number == 0 || strconv.FormatUint(number, 10) != port {
		return fielderr.New(path, "%q is not a service: write namespace/service:port, or namespace/https:service:port for TLS, with a port's number", text)
	}
	return nil
}

func isLabel(text string) bool { return len(text) <= maxLabel && dnsLabel.MatchString(text) }

// identity are the fields without which an object is another one, or none.
var identity = map[string]bool{
	"/apiVersion": true, "/kind": true, "/metadata": true, "/metadata/name": true, "/metadata/namespace": true, "/*": true, "/metadata/*": true,
}

// validatePointer checks a JSON pointer (RFC 6901) in which "[name=app]" may stand for the number
// of a list's item.
func validatePointer(path, pointer string) error {
	switch {
	case len(pointer) > maxPath:
		return fielderr.New(path, "has %d bytes; at most %d are allowed", len(pointer), maxPath)
	case !strings.HasPrefix(pointer, "/"):
		return fielderr.New(path, "%q is not a JSON pointer such as /spec/replicas", pointer)
	case identity[pointer]:
		return fielderr.New(path, "%q identifies the object; it cannot be ignored", pointer)
	}
	for token := range strings.SplitSeq(pointer[1:], "/") {
		if err := validateToken(path, pointer, token); err != nil {
			return err
		}
	}
	return nil
}

func validateToken(path, pointer, token string) error {
	if token == "" {
		return fielderr.New(path, "%q has an empty part", pointer)
	}
	for rest := token; ; {
		_, after, found := strings.Cut(rest, "~")
		if !found {
			break
		}
		if !strings.HasPrefix(after, "0") && !strings.HasPrefix(after, "1") {
			return fielderr.New(path, "%q has a ~ that is followed by neither 0 (for ~) nor 1 (for /)", pointer)
		}
		rest = after
	}
	if strings.HasPrefix(token, "[") && !namedItem.MatchString(token) {
		return fielderr.New(path, "%q has an item that is not of the form [name=app]", pointer)
	}
	return nil
}

// validateFolder checks a folder inside another one.
func validateFolder(field, folder string) error {
	switch {
	case folder == "":
		return nil
	case len(folder) > maxFolder:
		return fielderr.New(field, "has %d bytes; at most %d are allowed", len(folder), maxFolder)
	case strings.HasPrefix(folder, "/"):
		return fielderr.New(field, "%q must be relative to the folder of the first source: leave out the leading slash", folder)
	case strings.ContainsAny(folder, "\\\x00"):
		return fielderr.New(field, "%q must use forward slashes", folder)
	case path.Clean(folder) == ".." || strings.HasPrefix(path.Clean(folder), "../"):
		return fielderr.New(field, "%q leaves the folder of the first source", folder)
	}
	return nil
}
