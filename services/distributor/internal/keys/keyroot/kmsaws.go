// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package keyroot

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/leatdev/leat/internal/runtime/cloud"
)

const awsKMS = "AWS KMS"

// awsKey is a key of AWS KMS (https://docs.aws.amazon.com/kms/latest/APIReference/API_Encrypt.html). The
// binding is its encryption context.
type awsKey struct {
	arn, region, url string
	identity         *cloud.Identity
}

// awsARN is the name of a key. An alias is not one: it can be pointed to another key, and then what
// was wrapped would not open.
var awsARN = regexp.MustCompile(`^arn:aws(?:-cn|-us-gov)?:kms:([a-z]{2,4}(?:-[a-z]+)+-[0-9]{1,2}):[0-9]{12}:(key/(?:mrk-)?[0-9a-f-]{32,36}|alias/.+)$`)

func newAWS(p KMSParams) (*awsKey, error) {
	parts := awsARN.FindStringSubmatch(p.Key)
	if parts == nil {
		return nil, fmt.Errorf("got %.200q, want an ARN such as arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab", p.Key)
	}
	if strings.HasPrefix(parts[2], "alias/") {
		return nil, errors.New("got an alias, want the ARN of the key itself: an alias can be pointed to another key")
	}
	if err := cloud.CheckService("AWS_ENDPOINT_URL_KMS", p.AWSURL); err != nil {
		return nil, err
	}
	k := &awsKey{arn: p.Key, region: parts[1], url: p.AWSURL, identity: p.Identity}
	if k.url == "" {
		k.url = cloud.AWSService("kms", k.region)
	}
	k.url = strings.TrimSuffix(k.url, "/") + "/"
	return k, nil
}

func (k *awsKey) encrypt(ctx context.Context, key []byte, to binding) ([]byte, error) {
	var answer struct {
		KeyID          string `json:"KeyId"`
		CiphertextBlob []byte
	}
	request := map[string]any{"KeyId": k.arn, "Plaintext": key, "EncryptionContext": to}
	if err := k.call(ctx, "Encrypt", request, &answer, false); err != nil {
		return nil, err
	}
	if answer.KeyID != k.arn {
		return nil, damaged(awsKMS, "is about another key")
	}
	return answer.CiphertextBlob, nil
}

func (k *awsKey) decrypt(ctx context.Context, wrapped []byte, to binding) ([]byte, error) {
	var answer struct {
		KeyID     string `json:"KeyId"`
		Plaintext []byte
	}
	request := map[string]any{"KeyId": k.arn, "CiphertextBlob": wrapped, "EncryptionContext": to}
	if err := k.call(ctx, "Decrypt", request, &answer, true); err != nil {
		return nil, err
	}
	if answer.KeyID != k.arn || len(answer.Plaintext) == 0 {
		return nil, damaged(awsKMS, "is about another key, or contains none")
	}
	return answer.Plaintext, nil
}

func (k *awsKey) call(ctx context.Context, action string, request, answer any, opening bool) error {
	keys, err := k.identity.AWSKeys(ctx, "", k.region)
	if err != nil {
		return signInFailed(err)
	}
	return post(ctx, k.identity.Call(awsKMS, ""), k.url, request, answer, func(r *http.Request, body []byte) {
		r.Header.Set("Content-Type", "application/x-amz-json-1.1")
		r.Header.Set("X-Amz-Target", "TrentService."+action)
		keys.Sign(r, body, k.region, "kms", time.Now())
	}, opening)
}
