ALTER TABLE repositories ADD COLUMN webhook_secret {{.Bytes}};
