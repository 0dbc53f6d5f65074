// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	// maxTreeDepth bounds how deep free trees are nested. The hub has the same limit; here it also
	// ends anchors that contain themselves.
	maxTreeDepth = 100
	// maxExact is the largest whole number up to which a float64, the type of JSON's numbers on the
	// wire, holds every one.
	maxExact = 1 << 53
)

// tree decodes a free tree, such as the values of a chart: anything that JSON can express, in YAML.
// Keys are texts; a whole number counts as the text that it is written as, such as a port.
func (d *decoder) tree(target *structpb.Struct, node *yaml.Node, path string) {
	if node.Kind != yaml.MappingNode {
		d.problem(node, path, "want pairs such as key: value, got "+describe(node))
		return
	}
	if value := d.treeValue(node, path, 0); value != nil {
		target.Fields = value.GetStructValue().GetFields()
	}
}

// treeValue returns the value of a node, or nil after a problem.
func (d *decoder) treeValue(node *yaml.Node, path string, depth int) *structpb.Value {
	switch {
	case d.spent(node, path):
		return nil
	case depth > maxTreeDepth:
		d.problem(node, path, fmt.Sprintf("nested more than %d deep; does an anchor contain itself?", maxTreeDepth))
		return nil
	case node.Kind == yaml.MappingNode:
		return d.treeMapping(node, path, depth)
	case node.Kind == yaml.SequenceNode:
		list := &structpb.ListValue{}
		for i, item := range node.Content {
			value := d.treeValue(resolve(item), fmt.Sprintf("%s[%d]", path, i), depth+1)
			if value == nil {
				return nil
			}
			list.Values = append(list.Values, value)
		}
		return structpb.NewListValue(list)
	}
	value, problem := treeScalar(node)
	if problem != "" {
		d.problem(node, path, problem)
	}
	return value
}

func (d *decoder) treeMapping(node *yaml.Node, path string, depth int) *structpb.Value {
	fields := make(map[string]*structpb.Value, len(node.Content)/2)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := resolve(node.Content[i])
		at := path + "[" + key.Value + "]"
		if !slices.Contains([]string{stringTag, timestampTag, intTag}, key.Tag) {
			message := "want text as a key, got " + describe(key)
			if key.Tag == mergeTag {
				message = "merge keys (<<) are not supported; use an alias for the whole value"
			} else if key.Kind == yaml.ScalarNode {
				message += fmt.Sprintf("; put it into quotes: %q", key.Value)
			}
			d.problem(node.Content[i], path, message)
			return nil
		}
		if _, again := fields[key.Value]; again {
			d.problem(node.Content[i], at, "given twice")
			return nil
		}
		value := d.treeValue(resolve(node.Content[i+1]), at, depth+1)
		if value == nil {
			return nil
		}
		fields[key.Value] = value
	}
	return structpb.NewStructValue(&structpb.Struct{Fields: fields})
}

// treeScalar returns the value of a scalar, or its defect.
func treeScalar(node *yaml.Node) (value *structpb.Value, problem string) {
	switch node.Tag {
	case nullTag:
		return structpb.NewNullValue(), ""
	case boolTag:
		return structpb.NewBoolValue(strings.EqualFold(node.Value, "true")), ""
	case stringTag, timestampTag, mergeTag: // the latter two are kept as written
		return structpb.NewStringValue(node.Value), ""
	case intTag, floatTag:
		var number float64
		if err := node.Decode(&number); err != nil || math.IsNaN(number) || math.IsInf(number, 0) {
			return nil, "want a number that JSON knows, got " + node.Value
		}
		if node.Tag == intTag && math.Abs(number) > maxExact {
			return nil, fmt.Sprintf("the number has too many digits to travel unchanged; put it into quotes: %q", node.Value)
		}
		return structpb.NewNumberValue(number), ""
	default:
		return nil, "the YAML tag " + node.Tag + " is not supported here"
	}
}

// treeNode is the reverse of tree. Keys are sorted.
func treeNode(tree *structpb.Struct) *yaml.Node {
	node := &yaml.Node{Kind: yaml.MappingNode}
	for _, key := range slices.Sorted(maps.Keys(tree.GetFields())) {
		node.Content = append(node.Content, text(key), treeValueNode(tree.GetFields()[key]))
	}
	return node
}

func treeValueNode(value *structpb.Value) *yaml.Node {
	switch kind := value.GetKind().(type) {
	case *structpb.Value_StructValue:
		return treeNode(kind.StructValue)
	case *structpb.Value_ListValue:
		node := &yaml.Node{Kind: yaml.SequenceNode}
		for _, item := range kind.ListValue.GetValues() {
			node.Content = append(node.Content, treeValueNode(item))
		}
		return node
	case *structpb.Value_StringValue:
		return text(kind.StringValue)
	case *structpb.Value_BoolValue:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: boolTag, Value: strconv.FormatBool(kind.BoolValue)}
	case *structpb.Value_NumberValue:
		return numberNode(kind.NumberValue)
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: nullTag, Value: "null"}
	}
}

func numberNode(number float64) *yaml.Node {
	if number == math.Trunc(number) && math.Abs(number) <= maxExact {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: intTag, Value: strconv.FormatFloat(number, 'f', -1, 64)}
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: floatTag, Value: strconv.FormatFloat(number, 'g', -1, 64)}
}

// text returns a scalar that reads back as text: the encoder quotes it if it looks like something
// else.
func text(value string) *yaml.Node {
	var node yaml.Node
	node.SetString(value)
	return &node
}
