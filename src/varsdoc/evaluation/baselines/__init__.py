"""What a page says when it is read as text: OCR or the PDF's text layer, then BM25 or a small dense encoder."""
