// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	// masked replaces a secret.
	masked = "(masked)"
	// shortLine is the length up to which a single line of a multi-line secret is not masked: it
	// might be just a bracket.
	shortLine = 8
	// shortSecret is the length up to which a secret is looked for as a whole text only, and not
	// inside of longer ones: "1" is part of most of them.
	shortSecret = 3
	// telling is the length from which a secret in an object's metadata was put there. A shorter one
	// may equal a common word.
	telling = 8
)

// Tainted reports whether a value of an object contains a secret. Other values with the same text
// count, too. A nil Substitution taints nothing.
func (s *Substitution) Tainted(value any) bool {
	if s == nil || len(s.tainted) == 0 {
		return false
	}
	switch v := value.(type) {
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), s.Tainted)
	case []any:
		return slices.ContainsFunc(v, s.Tainted)
	case nil:
		return false
	default:
		_, tainted := s.tainted[fmt.Sprint(v)]
		return tainted
	}
}

// Taint adds the tainted texts of a render in another process.
func (s *Substitution) Taint(texts []string) {
	for _, text := range texts {
		s.tainted[text] = struct{}{}
	}
}

// Conceal adds secrets that are in objects already, such as values of manifests that were encrypted.
func (s *Substitution) Conceal(secrets ...string) {
	if len(secrets) == 0 {
		return
	}
	all := make(map[string]string, len(s.variables.Secrets)+len(secrets))
	maps.Copy(all, s.variables.Secrets) // the map belongs to the caller of NewSubstitution
	for _, secret := range secrets {
		all["\x00"+secret] = secret // not the name of a variable
		s.tainted[secret] = struct{}{}
	}
	s.variables.Secrets, s.forms = all, formsOf(all)
}

// and returns a substitution that conceals more secrets, and has what s has tainted. It returns s
// if there are no more.
func (s *Substitution) and(more []string) *Substitution {
	if len(more) == 0 {
		return s
	}
	all := NewSubstitution(Variables{})
	if s != nil {
		all.variables = s.variables
		maps.Copy(all.tainted, s.tainted)
	}
	all.Conceal(more...)
	return all
}

// Concealing returns a substitution that replaces nothing, and conceals these secrets.
func Concealing(secrets ...string) *Substitution {
	s := NewSubstitution(Variables{})
	s.Conceal(secrets...)
	return s
}

// Secrets returns the secrets, sorted, each once. A nil Substitution has none.
func (s *Substitution) Secrets() []string {
	if s == nil {
		return nil
	}
	return slices.Compact(slices.Sorted(maps.Values(s.variables.Secrets)))
}

// taintedTexts returns the texts that contain a secret. A nil Substitution has none.
func (s *Substitution) taintedTexts() []string {
	if s == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.tainted))
}

// Reveals reports whether the text contains a secret, as it is or encoded. A nil Substitution has no
// secrets.
func (s *Substitution) Reveals(text string) bool {
	return s != nil && (slices.ContainsFunc(s.forms.whole, func(form string) bool { return strings.Contains(text, form) }) ||
		slices.ContainsFunc(s.forms.inner, func(form string) bool { return strings.Contains(text, form) }))
}

// Mask replaces the secrets in a text from another source. Of a multi-line secret it also replaces
// each single line, because the text may begin in the middle of the secret. A nil Substitution has
// no secrets.
func (s *Substitution) Mask(text string) string {
	if s == nil {
		return text
	}
	for _, secret := range s.forms.masks {
		if len(secret) <= shortSecret {
			text = maskWords(text, secret)
			continue
		}
		text = strings.ReplaceAll(text, secret, masked)
	}
	for _, inner := range s.forms.inner {
		text = maskEncoded(text, inner)
	}
	return text
}

// maskEncoded replaces each run of base64 that has the inner part of an encoded secret. The
// characters around that part hold the rest of the secret.
func maskEncoded(text, inner string) string {
	for from := 0; ; {
		i := strings.Index(text[from:], inner)
		if i < 0 {
			return text
		}
		start, end := from+i, from+i+len(inner)
		for start > 0 && isBase64(text[start-1]) {
			start--
		}
		for end < len(text) && isBase64(text[end]) {
			end++
		}
		text, from = text[:start]+masked+text[end:], start+len(masked)
	}
}

func isBase64(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '+' || b == '/' || b == '-' || b == '_' || b == '='
}

// maskWords replaces a secret where it is a word of its own. Inside of a longer word, such as a letter of
// it, it shows nothing.
func maskWords(text, secret string) string {
	var out strings.Builder
	for from := 0; ; {
		i := strings.Index(text[from:], secret)
		if i < 0 {
			out.WriteString(text[from:])
			return out.String()
		}
		at, end := from+i, from+i+len(secret)
		out.WriteString(text[from:at])
		if at > 0 && isWordByte(text[at-1]) && isWordByte(secret[0]) || end < len(text) && isWordByte(text[end]) && isWordByte(secret[len(secret)-1]) {
			out.WriteString(secret)
		} else {
			out.WriteString(masked)
		}
		from = end
	}
}

func isWordByte(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '_' || b >= 0x80
}

// maskError returns an error whose message holds no secret. A nil Substitution has no secrets.
func (s *Substitution) maskError(err error) error {
	if _, isVariable := errors.AsType[*VariableError](err); isVariable || s.Mask(err.Error()) == err.Error() {
		return err // the former names variables and objects, and no values
	}
	if limit, ok := errors.AsType[*LimitError](err); ok {
		hidden := *limit
		hidden.Path, hidden.Message = s.Mask(limit.Path), s.Mask(limit.Message)
		return &hidden
	}
	if invalid, ok := errors.AsType[*Error](err); ok {
		return &Error{Path: s.Mask(invalid.Path), Document: invalid.Document, Cause: errors.New(s.Mask(invalid.Cause.Error()))}
	}
	return errors.New(s.Mask(err.Error()))
}

// forms are the secrets as texts contain them.
type forms struct {
	// whole are the secrets as they are, and in the encodings that templates and manifests use.
	whole []string
	// inner are the characters by which base64 of a longer text shows a secret in it, such as of a
	// header with a user and a password.
	inner []string
	// masks are whole, and the lines of secrets of several lines. The longest come first, so that
	// nothing is left of a secret that contains another one.
	masks []string
}

// formsOf returns the forms of secrets.
func formsOf(secrets map[string]string) forms {
	all := forms{whole: wholeForms(secrets)}
	all.masks = slices.Clone(all.whole)
	for _, secret := range secrets {
		for line := range strings.Lines(secret) {
			if line = strings.TrimSpace(line); len(line) > shortLine {
				all.masks = append(all.masks, line)
			}
		}
		if len(secret) >= telling {
			all.inner = append(all.inner, innerForms(secret)...)
		}
	}
	slices.Sort(all.inner)
	all.inner = slices.Compact(all.inner)
	slices.SortFunc(all.masks, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) })
	all.masks = slices.Compact(all.masks)
	return all
}

// innerForms returns the characters that stand for nothing but the secret where a longer text is
// encoded, for each place of its first byte in a group of three, in both alphabets.
func innerForms(secret string) (inner []string) {
	for offset := range 3 {
		text := append(make([]byte, offset), secret...)
		from, to := (offset*8+5)/6, len(text)*8/6
		inner = append(inner, base64.StdEncoding.EncodeToString(text)[from:to], base64.URLEncoding.EncodeToString(text)[from:to])
	}
	return inner
}

// wholeForms returns the secrets as texts of manifests contain them: as they are, and in the
// encodings that templates and manifests use.
func wholeForms(secrets map[string]string) []string {
	forms := map[string]bool{}
	for _, secret := range secrets {
		if secret == "" {
			continue
		}
		forms[secret] = true
		if len(secret) <= shortSecret {
			continue // its encodings are common words
		}
		quoted, err := json.Marshal(secret)
		if err == nil {
			forms[string(quoted[1:len(quoted)-1])] = true
		}
		for _, quoted := range []string{rawJSON(secret), strconv.Quote(secret), strconv.QuoteToASCII(secret)} {
			forms[quoted[1:len(quoted)-1]] = true
		}
		for _, form := range []string{
			base64.StdEncoding.EncodeToString([]byte(secret)), base64.URLEncoding.EncodeToString([]byte(secret)),
			hex.EncodeToString([]byte(secret)), url.QueryEscape(secret), url.PathEscape(secret),
		} {
			forms[form] = true
		}
	}
	return slices.Sorted(maps.Keys(forms))
}

// rawJSON returns JSON that does not escape what HTML does, as most encoders write it.
func rawJSON(text string) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(text) != nil {
		return strconv.Quote(text)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// findSecrets taints the texts of objects that contain a secret. It is for objects of renderers
// that were given the configuration: it is unknown which of their texts come from it. It returns an
// *Error if a secret is shown to people.
func (s *Substitution) findSecrets(objects []Object) error {
	if len(s.forms.whole) == 0 {
		return nil
	}
	for _, o := range objects {
		for key, value := range o.Object {
			shown := key == "apiVersion" || key == "kind" || key == "metadata"
			if !s.findIn(value, shown) {
				return &Error{Path: o.Path, Document: o.Document, Cause: fmt.Errorf(
					"%s: %s holds a secret of the configuration, and is shown to people; use a value instead", o.GetKind(), key)}
			}
		}
	}
	return nil
}

// taintSecrets taints the texts of objects that contain a secret, wherever they are.
func (s *Substitution) taintSecrets(objects []Object) {
	for _, o := range objects {
		s.findIn(o.Object, false)
	}
}

// findIn taints the texts below a value. It returns false if one of them may not hold a secret.
func (s *Substitution) findIn(value any, shown bool) bool {
	switch v := value.(type) {
	case map[string]any:
		for _, item := range v {
			if !s.findIn(item, shown) {
				return false
			}
		}
	case []any:
		for _, item := range v {
			if !s.findIn(item, shown) {
				return false
			}
		}
	case nil, bool:
	default:
		text := fmt.Sprint(v)
		form, found := s.holds(text)
		if found && shown && len(form) >= telling {
			return false
		}
		if found {
			s.tainted[text] = struct{}{}
		}
	}
	return true
}

// holds returns the secret that a text contains, also inside of base64.
func (s *Substitution) holds(text string) (form string, found bool) {
	decoded, err := base64.StdEncoding.DecodeString(text)
	for _, form := range s.forms.whole {
		if len(form) <= shortSecret {
			if text == form || err == nil && string(decoded) == form {
				return form, true
			}
			continue
		}
		if strings.Contains(text, form) || err == nil && strings.Contains(string(decoded), form) {
			return form, true
		}
	}
	for _, form := range s.forms.inner {
		if strings.Contains(text, form) {
			return form, true
		}
	}
	return "", false
}
