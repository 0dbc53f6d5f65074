// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package imagemark rewrites the values of the lines of a YAML file that name an image policy.
//
// A line names a policy by a comment at its end:
//
//	image: registry.example.com/shop/web:1.2.3  # leat: image=shop/web
//	tag: 1.2.3                                  # leat: tag=shop/web
//	digest: sha256:…                            # leat: digest=shop/web
//
// Files are hostile. Rewrite replaces one scalar of such a line and keeps every other byte of the file: line ends, the
// byte order mark, indentation, quotes, and the name of the image. It asks a parser of YAML where the scalars are, so that a line which
// is part of a text in the file is no mark. A mark that it cannot use is reported and changes nothing. The package has no effects.
package imagemark

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/leatdev/leat/services/distributor/internal/spine/imagetag"
)

// MaxFileBytes bounds a file, and MaxDepth how deep its values are nested.
const (
	MaxFileBytes = 1 << 20
	maxDepth     = 200
)

// Values are the texts to write. The caller has checked that they are a tag and a digest by OCI's grammar.
type Values struct {
	Tag string
	// Digest is empty if none is to be written; an image then loses the one that it has.
	Digest string
}

// Mark is a line that names the policy.
type Mark struct {
	// Line counts from 1.
	Line int
	// Problem is why the mark cannot be used. Empty: the line has its value.
	Problem string
	// From is the replaced scalar. It is the same as To if nothing was to be done.
	From, To string
}

var (
	// markStart finds marks of any policy, and the word behind them.
	markStart = regexp.MustCompile(`#[ \t]*leat:[ \t]*([^ \t]*)`)
	bom       = []byte("\ufeff")
	// imageName is what may stand before the tag. It is lax: the committer wrote it.
	imageName = regexp.MustCompile(`^[A-Za-z0-9]+([._:-]+[A-Za-z0-9]+)*(/[A-Za-z0-9]+([._-]+[A-Za-z0-9]+)*)*$`)
	digest    = regexp.MustCompile(`^[A-Za-z0-9+._-]+:[A-Za-z0-9=_-]+$`)
	// notText are plain scalars that some version of YAML reads as something else than a text.
	notText = regexp.MustCompile(`^(?i:y|n|yes|no|on|off|true|false|null|[0-9][0-9_]*(:[0-9_]+)*(\.[0-9_]*)?(e[-+]?[0-9_]*)?|[0-9_]+|0[xob][0-9a-f_]*|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*)$`)
)

// May reports whether a file may have a mark of the policy, so that a file without one need not be parsed.
func May(content []byte, policy string) bool { return bytes.Contains(content, []byte("="+policy)) }

// Rewrite returns the content of a file with the values in the lines that name the policy, as PROJECT/NAME, and these lines.
// The content is the same slice if nothing was to be done.
func Rewrite(content []byte, policy string, values Values) ([]byte, []Mark) {
	body, isMarked := bytes.CutPrefix(content, bom)
	lines := strings.SplitAfter(string(body), "\n")
	found := marksIn(lines, policy)
	if len(found) == 0 {
		return content, nil
	}
	scalars, err := scalarsOf(body)
	marks := make([]Mark, len(found))
	isChanged := false
	for i, f := range found {
		marks[i].Line = f.line + 1
		if err == nil && f.problem == "" {
			marks[i].From, marks[i].To, f.problem = f.replace(lines, scalars[f.line+1], values)
			isChanged = isChanged || marks[i].From != marks[i].To
		} else if err != nil {
			f.problem = err.Error()
		}
		marks[i].Problem = f.problem
	}
	if !isChanged {
		return content, marks
	}
	changed := []byte(strings.Join(lines, ""))
	if isMarked {
		changed = append(bytes.Clone(bom), changed...)
	}
	return changed, marks
}

// found is a mark before the scalar of its line is known.
type found struct {
	// line is an index, and at is where the comment begins in the line.
	line, at int
	// part is image, tag or digest.
	part    string
	problem string
}

// marksIn finds the marks of a policy. A mark of any other policy is not looked at.
func marksIn(lines []string, policy string) (all []found) {
	for i, line := range lines {
		places := markStart.FindAllStringSubmatchIndex(strings.TrimRight(line, "\r\n"), -1)
		if places == nil {
			continue
		}
		place := places[len(places)-1]
		part, named, _ := strings.Cut(line[place[2]:place[3]], "=")
		if named != policy {
			continue
		}
		f := found{line: i, at: place[0], part: part}
		switch {
		case part != "image" && part != "tag" && part != "digest":
			f.problem = fmt.Sprintf("the mark names the part %.20q, which is not image, tag or digest", part)
		case strings.TrimSpace(line[place[1]:]) != "":
			f.problem = "the mark is not at the end of its line"
		}
		all = append(all, f)
	}
	return all
}

// replace replaces the scalar before a mark in its line, and returns both, or the problem.
func (f found) replace(lines []string, s *scalar, values Values) (from, to, problem string) {
	line := lines[f.line]
	start, end, problem := s.span(line, f.at)
	if problem != "" {
		return "", "", problem
	}
	text, problem := f.wanted(s.node.Value, values)
	if problem != "" {
		return "", "", problem
	}
	from = line[start:end]
	switch to = text; s.node.Style &^ yaml.TaggedStyle {
	case yaml.DoubleQuotedStyle:
		to = `"` + text + `"`
	case yaml.SingleQuotedStyle:
		to = "'" + text + "'"
	default:
		if notText.MatchString(text) {
			to = `"` + text + `"`
		}
	}
	lines[f.line] = line[:start] + to + line[end:]
	return from, to, ""
}

// wanted returns the text for a value.
func (f found) wanted(value string, values Values) (text, problem string) {
	switch f.part {
	case "tag":
		return values.Tag, ""
	case "digest":
		if values.Digest == "" {
			return "", "the mark wants a digest, and the policy does not look one up: set its spec.pinDigest"
		}
		return values.Digest, ""
	}
	name, isImage := nameOf(value)
	if !isImage {
		return "", "the value is not an image such as registry.example.com/shop/web:1.2.3"
	}
	text = name + ":" + values.Tag
	if values.Digest != "" {
		text += "@" + values.Digest
	}
	return text, ""
}

// nameOf returns the name of an image, without tag and digest.
func nameOf(image string) (string, bool) {
	name, of, hasDigest := strings.Cut(image, "@")
	if hasDigest && !digest.MatchString(of) {
		return "", false
	}
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		if !imagetag.IsTag(name[i+1:]) {
			return "", false
		}
		name = name[:i]
	}
	return name, imageName.MatchString(name)
}

// scalar is the last scalar that begins in a line.
type scalar struct {
	node *yaml.Node
	// isKey is set if the scalar is the key of a mapping, and isFlow if it is in a collection with brackets.
	isKey, isFlow bool
}

// span returns where the scalar is in its line, which ends with a comment that begins at an index, or why it cannot be replaced. A
// nil scalar is that of a line in which none begins.
func (s *scalar) span(line string, comment int) (start, end int, problem string) {
	switch {
	case s == nil:
		return 0, 0, "the line is part of a text, or has no value"
	case s.isFlow:
		return 0, 0, "the value is in a collection with brackets; write it on a line of its own"
	case s.isKey:
		return 0, 0, "the line has no value behind its key"
	case s.node.Kind != yaml.ScalarNode:
		return 0, 0, "the value is not a plain or quoted text"
	}
	start = column(line, s.node.Column)
	before := strings.TrimRight(line[:comment], " \t")
	if end = len(before); start > end || end == comment {
		return 0, 0, "the mark is part of a text"
	}
	raw := line[start:end]
	switch s.node.Style &^ yaml.TaggedStyle {
	case 0:
		if raw == s.node.Value && raw != "" {
			return start, end, ""
		}
	case yaml.DoubleQuotedStyle:
		if raw == `"`+s.node.Value+`"` {
			return start, end, ""
		}
	case yaml.SingleQuotedStyle:
		if raw == "'"+s.node.Value+"'" {
			return start, end, ""
		}
	default:
		return 0, 0, "the value is a text of several lines"
	}
	return 0, 0, "the value is not a text in plain letters: it is empty, or has escapes, a tag, an anchor or several lines"
}

// column returns the index of a column, which counts characters from 1.
func column(line string, number int) int {
	at := 0
	for range number - 1 {
		_, size := utf8.DecodeRuneInString(line[at:])
		at += size
	}
	return at
}

// errLines is why lines of a file cannot be told apart.
var errLines = errors.New("the file has line ends that not every reader of YAML knows; use LF or CRLF")

// scalarsOf returns the last scalar that begins in each line of a file, by the number of the line.
func scalarsOf(body []byte) (map[int]*scalar, error) {
	switch {
	case len(body) > MaxFileBytes:
		return nil, fmt.Errorf("the file has more than %d bytes", MaxFileBytes)
	case !utf8.Valid(body):
		return nil, errors.New("the file is not UTF-8")
	case bytes.ContainsAny(body, "\u0085\u2028\u2029\ufeff") || bytes.Count(body, []byte("\r")) != bytes.Count(body, []byte("\r\n")):
		return nil, errLines
	}
	scalars := map[int]*scalar{}
	decoder := yaml.NewDecoder(bytes.NewReader(body))
	for {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return scalars, nil
		}
		if err != nil {
			return nil, fmt.Errorf("the file is not YAML: %.200s", strings.TrimPrefix(err.Error(), "yaml: "))
		}
		if !collect(scalars, &document, false, false, 0) {
			return nil, fmt.Errorf("values are nested deeper than %d", maxDepth)
		}
	}
}

// collect adds the scalars below a node. It returns false for one that is nested too deep.
func collect(scalars map[int]*scalar, node *yaml.Node, isKey, isFlow bool, depth int) bool {
	if depth > maxDepth {
		return false
	}
	if node.Kind == yaml.ScalarNode || node.Kind == yaml.AliasNode {
		if last := scalars[node.Line]; last == nil || last.node.Column <= node.Column {
			scalars[node.Line] = &scalar{node: node, isKey: isKey, isFlow: isFlow}
		}
		return true
	}
	isFlow = isFlow || node.Style&yaml.FlowStyle != 0
	for i, child := range node.Content {
		if !collect(scalars, child, node.Kind == yaml.MappingNode && i%2 == 0, isFlow, depth+1) {
			return false
		}
	}
	return true
}
